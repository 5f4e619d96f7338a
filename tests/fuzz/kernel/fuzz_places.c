/*
 * walk_places over any bytes and any columns of places: a row is what walk_frames makes of that place alone, and the
 * place it stops at holds something else than exactly one record.
 */
#include "rows.h"

#define PLACES_MAX 32

struct places {
    struct bytes log;
    struct bytes starts;
    struct bytes sizes;
    int64_t physical_base;
    struct bytes bases; /* without data: the one for all counts */
    int check_crc;
};

/* The one record of place i, by walk_frames over a copy that ends where the place does; or what stands there instead. */
static enum walk_end expected_at(const struct places *places, size_t i, struct frame_row *row) {
    int64_t start, size;
    memcpy(&start, places->starts.data + 8 * i, 8);
    memcpy(&size, places->sizes.data + 8 * i, 8);
    const int64_t all = (int64_t)places->log.size;
    if (start < 0 || size < HEAD_SIZE || size > all || start > all - size) return BAD_LENGTHS;
    const struct bytes place = copy_of(places->log.data + start, (size_t)size);
    uint8_t *table = table_of(1);
    int64_t position = start;
    size_t filled = 0;
    int64_t base = places->physical_base;
    if (places->bases.data != NULL) memcpy(&base, places->bases.data + 8 * i, 8);
    enum walk_end end = walk_frames((const uint8_t *)((uintptr_t)place.data - (uintptr_t)start), &position,
                                    start + size, base, places->check_crc, table, 1, &filled);
    if (filled == 1) {
        *row = row_at(table, 0);
        end = position == start + size ? END : BAD_LENGTHS;
    }
    free(table);
    drop(place);
    return end;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct source source = {data, size};
    struct places places;
    const uint8_t kind = (uint8_t)take(&source, 1);
    places.check_crc = kind & 1;
    const size_t capacity = take(&source, 1) % (PLACES_MAX + 2);
    const size_t wanted = take(&source, 1) % (PLACES_MAX + 1);
    places.physical_base = (int64_t)take(&source, 8);
    places.starts = take_bytes(&source, 8 * wanted);
    places.sizes = take_bytes(&source, 8 * wanted);
    const int has_bases = (kind & 4) != 0;
    places.bases = (struct bytes){NULL, 0};
    if (has_bases) places.bases = take_bytes(&source, 8 * wanted);
    places.log = take_log(&source, kind & 2, places.physical_base);

    const struct ranges ranges = {places.log, places.starts.data, places.sizes.data};
    uint8_t *rows = table_of(capacity);
    size_t filled = 0;
    const enum walk_end end =
        walk_places(&ranges, wanted, places.physical_base, places.bases.data, places.check_crc, rows, capacity, &filled);
    CHECK(filled <= wanted && filled <= capacity);
    CHECK((end == END) == (filled == wanted));
    check_untouched(rows, filled, capacity);
    for (size_t i = 0; i < filled; i++) {
        struct frame_row expected;
        const struct frame_row row = row_at(rows, i);
        check_shape(&row);
        CHECK(expected_at(&places, i, &expected) == END);
        CHECK(memcmp(&row, &expected, sizeof row) == 0);
    }
    if (end != END) {
        struct frame_row ignored;
        CHECK(end == (filled == capacity ? ROWS_FULL : expected_at(&places, filled, &ignored)));
    }
    free(rows);
    drop(places.starts);
    drop(places.sizes);
    if (has_bases) drop(places.bases);
    drop(places.log);
    return 0;
}
