/* What must hold of every row of a walk, whatever bytes it was made from. */
#ifndef FLIGHTLOG_FUZZ_ROWS_H
#define FLIGHTLOG_FUZZ_ROWS_H

#include "byteorder.h"
#include "fuzz.h"

#define RECORD_SIZE_MIN 91 /* V1, IPv4 hosts, nothing in it */

/*
 * The rest of the input as a log whose first byte has this physical offset. With `repairs`, every frame gets the offset
 * of its place: without, of the frames that the fuzzer copies and moves hardly one would be a record.
 */
UNWATCHED static struct bytes take_log(struct source *source, int repairs, int64_t physical_offset) {
    const struct bytes log = take_rest(source);
    uint8_t *const data = (uint8_t *)(uintptr_t)log.data;
    for (size_t at = 0; repairs && log.size - at >= RECORD_SIZE_MIN;) {
        uint32_t size;
        memcpy(&size, data + at + SIZE_AT, 4);
        store64(data + at + PHYSICAL_OFFSET_AT, (int64_t)((uint64_t)physical_offset + at));
        size = big32(size);
        if (size < RECORD_SIZE_MIN || size > log.size - at) break;
        at += size;
    }
    return log;
}

/* A table for so many rows, of exactly their size, filled with a pattern that no row has. */
UNWATCHED static uint8_t *table_of(size_t rows) {
    uint8_t *table = exactly(rows * sizeof(struct frame_row));
    memset(table, 0xA5, rows * sizeof(struct frame_row));
    return table;
}

UNWATCHED static struct frame_row row_at(const uint8_t *table, size_t i) {
    struct frame_row row;
    memcpy(&row, table + i * sizeof row, sizeof row);
    return row;
}

UNWATCHED static void check_untouched(const uint8_t *table, size_t from, size_t rows) {
    for (size_t i = from * sizeof(struct frame_row); i < rows * sizeof(struct frame_row); i++) CHECK(table[i] == 0xA5);
}

/* Its parts lie one behind the other and fill the record to the byte. */
UNWATCHED static void check_shape(const struct frame_row *row) {
    const int32_t magic = (int32_t)row->magic;
    CHECK(magic == MAGIC_V1 || magic == MAGIC_V2);
    const int64_t hosts = born_host_size((int32_t)row->sys_flag) + store_host_size((int32_t)row->sys_flag);
    CHECK((int32_t)row->size >= RECORD_SIZE_MIN);
    CHECK((int32_t)row->body_size >= 0);
    CHECK((int32_t)row->topic_size >= 0 && row->topic_size <= (magic == MAGIC_V1 ? 255 : INT16_MAX));
    CHECK((int32_t)row->properties_size >= 0 && row->properties_size <= INT16_MAX);
    CHECK(row->body_position == row->position + 72 + (uint64_t)hosts);
    CHECK(row->topic_position == row->body_position + row->body_size + (magic == MAGIC_V1 ? 1 : 2));
    CHECK(row->properties_position == row->topic_position + row->topic_size + 2);
    CHECK(row->properties_position + row->properties_size == row->position + row->size);
    CHECK(row->crc_ok <= 1 && row->reserved == 0);
}

/* The frames of [start, position) without a gap, and the table untouched behind them. */
static inline void check_rows(const uint8_t *table, size_t count, size_t capacity, int64_t start, int64_t position) {
    CHECK(count <= capacity);
    int64_t at = start;
    for (size_t i = 0; i < count; i++) {
        const struct frame_row row = row_at(table, i);
        check_shape(&row);
        CHECK((int64_t)row.position == at);
        at += (int32_t)row.size;
    }
    CHECK(at == position);
    check_untouched(table, count, capacity);
}

#endif
