/*
 * What queues and the key index are to say of the records of a walk: entries, grouped by queue, and keys. The rules are
 * those of index/dispatch/dispatch.py and index/key/key_entries.py.
 */
#ifndef FLIGHTLOG_LISTING_H
#define FLIGHTLOG_LISTING_H

#include <stddef.h>
#include <stdint.h>

#include "encode.h"

/* listing.QUEUE_DTYPE, field by field; little-endian on every host. */
struct listed_queue {
    uint64_t first_offset; /* queue offset of its first entry */
    uint32_t first_row;    /* its topic stands there */
    uint32_t queue_id;
    uint32_t count;
    uint32_t is_run; /* 1: each queue offset is one above that before */
};
_Static_assert(sizeof(struct listed_queue) == 24, "QUEUE_DTYPE has no padding");

#define UNIT_SIZE 20 /* an entry of a consume queue: physical offset i64, size i32, tags code i64, big-endian */

struct listing {
    uint8_t *units;       /* grouped by queue, each queue's in the order of the rows */
    uint8_t *row_numbers; /* int32 of this host: whose each entry is; behind them the rows that are apart */
    uint8_t *queues;      /* in the order in which they come up */
    uint8_t *key_hashes;  /* int32 of this host; in the order of the rows, as are the next two */
    uint8_t *key_offsets; /* int64 of this host */
    uint8_t *key_times;   /* int64 of this host */
    size_t key_room;
    size_t unit_count;
    size_t apart_count;
    size_t queue_count;
    size_t key_count; /* more than key_room: those that did not fit were not written */
    size_t batch_count;
};

/* Whether topic and properties of every row lie in the data. */
int rows_are_inside(struct bytes data, const uint8_t *rows, size_t count);

/*
 * Lists the rows. Units, row numbers and queues have room for one a row. Rows at any alignment; a row that does not lie
 * in the data is passed over. 0: no memory; nothing was listed then.
 */
int list_rows(struct bytes data, const uint8_t *rows, size_t count, struct bytes apart_topic, struct listing *listing);

#endif
