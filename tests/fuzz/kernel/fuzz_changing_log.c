/* walk_frames while the log changes under it: it stays inside, goes on, and every row is whole in itself. */
#include "rows.h"

#include "meddle.h"

#include "walk.c"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct source source = {data, size};
    const uint8_t kind = (uint8_t)take(&source, 1);
    const size_t steps = take(&source, 1);
    const int64_t physical_base = (int64_t)take(&source, 8);
    const struct bytes changes = take_bytes(&source, STEP_SIZE * steps);
    const struct bytes log = take_log(&source, kind & 2, physical_base);
    script = (struct source){changes.data, changes.size};
    victims[0] = log;
    victim_count = 1;

    const size_t capacity = log.size / RECORD_SIZE_MIN + 1;
    uint8_t *rows = table_of(capacity);
    int64_t position = 0;
    size_t count = 0;
    const enum walk_end end =
        walk_frames(log.data, &position, (int64_t)log.size, physical_base, kind & 1, rows, capacity, &count);
    CHECK(end >= END && end <= BAD_OFFSET && end != ROWS_FULL);
    CHECK(position <= (int64_t)log.size);
    check_rows(rows, count, capacity, 0, position);
    for (size_t i = 0; i < count; i++) {
        CHECK((uint64_t)physical_base + row_at(rows, i).position == row_at(rows, i).physical_offset);
    }
    free(rows);
    drop(changes);
    drop(log);
    return 0;
}
