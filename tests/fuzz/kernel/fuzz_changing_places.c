/* walk_places while the log and the columns of places change under it: it stays inside the log, and rows are whole. */
#include "rows.h"

#include "meddle.h"

#include "columns.c"
#include "walk.c"

#define PLACES_MAX 32

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct source source = {data, size};
    const uint8_t kind = (uint8_t)take(&source, 1);
    const size_t steps = take(&source, 1), wanted = take(&source, 1) % (PLACES_MAX + 1);
    const int64_t physical_base = (int64_t)take(&source, 8);
    const struct bytes starts = take_bytes(&source, 8 * wanted), sizes = take_bytes(&source, 8 * wanted);
    const struct bytes changes = take_bytes(&source, STEP_SIZE * steps);
    const struct bytes log = take_log(&source, kind & 2, physical_base);
    script = (struct source){changes.data, changes.size};
    victims[0] = log, victims[1] = starts, victims[2] = sizes;
    victim_count = 3;

    const struct ranges ranges = {log, starts.data, sizes.data};
    uint8_t *rows = table_of(wanted);
    size_t count = 0;
    const enum walk_end end = walk_places(&ranges, wanted, physical_base, NULL, kind & 1, rows, wanted, &count);
    CHECK(count <= wanted && (end == END) == (count == wanted));
    check_untouched(rows, count, wanted);
    for (size_t i = 0; i < count; i++) {
        const struct frame_row row = row_at(rows, i);
        check_shape(&row);
        CHECK(row.position + row.size <= log.size);
    }
    free(rows);
    drop(starts);
    drop(sizes);
    drop(changes);
    drop(log);
    return 0;
}
