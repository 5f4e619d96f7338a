/* The walk over record frames: a row for each record, and why it stopped. frame.py is the Python side of both. */
#ifndef FLIGHTLOG_WALK_H
#define FLIGHTLOG_WALK_H

#include <stddef.h>
#include <stdint.h>

#include "columns.h"

/* FRAME_DTYPE, field by field; little-endian on every host. */
struct frame_row {
    uint64_t position;
    uint64_t physical_offset;
    uint64_t queue_offset;
    uint64_t born_timestamp_ms;
    uint64_t store_timestamp_ms;
    uint64_t prepared_transaction_offset;
    uint64_t body_position;
    uint64_t topic_position;
    uint64_t properties_position;
    uint32_t size;
    uint32_t magic;
    uint32_t body_crc;
    uint32_t queue_id;
    uint32_t flag;
    uint32_t sys_flag;
    uint32_t reconsume_times;
    uint32_t body_size;
    uint32_t topic_size;
    uint32_t properties_size;
    uint32_t crc_ok;
    uint32_t reserved;
};
_Static_assert(sizeof(struct frame_row) == 120, "FRAME_DTYPE has no padding");

/* frame.WalkEnd */
enum walk_end { END, ROWS_FULL, BLANK, EMPTY, TRUNCATED, BAD_MAGIC, BAD_LENGTHS, BAD_OFFSET };

/*
 * Walks the frames of data[*position, stop) and writes at most `capacity` rows, at any alignment. The caller guarantees
 * 0 <= *position <= stop <= bytes of data. On return *position is that of the first frame not consumed and *count the
 * rows written. Nothing outside data[*position, stop) is read, whatever stands in it, even while another process
 * changes it.
 */
enum walk_end walk_frames(const uint8_t *data, int64_t *position, int64_t stop, int64_t physical_base, int check_crc,
                          uint8_t *rows, size_t capacity, size_t *count);

/*
 * The same for records at known places, in any order. Each place must contain exactly one record; stops at the first
 * that does not, and returns why. *count is the number of rows written, and so the place it stopped at. `bases`, unless
 * NULL, is an int64 column in host byte order with a base for each place, instead of one for all.
 */
enum walk_end walk_places(const struct ranges *places, size_t wanted, int64_t physical_base, const uint8_t *bases,
                          int check_crc, uint8_t *rows, size_t capacity, size_t *count);

/* The record that fills this place of the data, or why there is none. */
enum walk_end look_at(const uint8_t *data, struct bytes place, int64_t physical_base, int check_crc,
                      struct frame_row *row);

/*
 * Prefetches place i of `count`, if there is one. The CPU cannot predict the place of the next record, and waiting for
 * its first cache lines takes as long as checking all of it.
 */
void ask_for_place(const struct ranges *places, size_t i, size_t count);
#define PLACES_AHEAD 2

#endif
