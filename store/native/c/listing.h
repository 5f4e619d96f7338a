/*
 * Builds the queue entries, grouped by queue, and the index keys of the records of a walk, by the rules of
 * index/dispatch/dispatch.py and index/key/key_entries.py.
 */
#ifndef FLIGHTLOG_LISTING_H
#define FLIGHTLOG_LISTING_H

#include <stddef.h>
#include <stdint.h>

#include "encode.h"

/* listing.QUEUE_DTYPE, field by field; little-endian on every host. */
struct listed_queue {
    uint64_t first_offset; /* queue offset of its first entry */
    uint32_t first_row;    /* position of its topic */
    uint32_t queue_id;
    uint32_t count;
    uint32_t is_run; /* 1: consecutive queue offsets */
};
_Static_assert(sizeof(struct listed_queue) == 24, "QUEUE_DTYPE has no padding");

#define UNIT_SIZE 20 /* an entry of a consume queue: physical offset i64, size i32, tags code i64, big-endian */

struct listing {
    uint8_t *units;       /* grouped by queue, each queue's in the order of the rows */
    uint8_t *row_numbers; /* int32 in host byte order: the row of each entry; then the rows left to Python */
    uint8_t *queues;      /* in order of their first row */
    uint8_t *key_hashes;  /* int32 in host byte order; in row order, as the next two */
    uint8_t *key_offsets; /* int64 of this host */
    uint8_t *key_times;   /* int64 of this host */
    size_t key_room;
    size_t unit_count;
    size_t apart_count;
    size_t queue_count;
    size_t key_count; /* may exceed key_room: keys that did not fit are not written */
    size_t batch_count;
};

/* Whether topic and properties of every row are inside of the data. */
int rows_are_inside(struct bytes data, const uint8_t *rows, size_t count);

/*
 * Builds the entries and keys of the rows. Units, row numbers and queues have room for one per row. Rows may be
 * unaligned; a row outside of the data is skipped. 0 without memory; nothing is built then.
 */
int list_rows(struct bytes data, const uint8_t *rows, size_t count, struct bytes apart_topic, struct listing *listing);

#endif
