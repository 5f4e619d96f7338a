/* Many ranges of bytes gathered into one run, and many records encoded from columns. */
#ifndef FLIGHTLOG_COLUMNS_H
#define FLIGHTLOG_COLUMNS_H

#include <stddef.h>
#include <stdint.h>

#include "encode.h"

/* Ranges of `data`: item i is `sizes[i]` bytes from `starts[i]` on. Both are int64 of this host, at any alignment. */
struct ranges {
    struct bytes data;
    const uint8_t *starts;
    const uint8_t *sizes;
};

/* Range i in *found, or 0 if it does not lie in the data. Each number is loaded once: what was checked is used. */
int range_at(const struct ranges *ranges, size_t i, struct bytes *found);

/* The sum of all sizes, or -1 if a range lies outside of the data or the sum is beyond 64 bits. */
int64_t ranges_size(const struct ranges *ranges, size_t count);

/* Copies the ranges into `out`, one behind the other. 0 if they are not those that took `out_size` bytes before. */
int gather_ranges(const struct ranges *ranges, size_t count, uint8_t *out, size_t out_size);

/* Queues as two columns: ids, int32 and ascending, and the offset that comes next in each, int64. */
struct queue_table {
    const uint8_t *ids;
    uint8_t *next_offsets;
    size_t count;
};

/*
 * Gives each row the next offset of its queue, beyond the highest int64 the lowest. 0, and nothing is written, if the ids
 * do not ascend or a row's queue is not among them.
 */
int number_rows(const uint8_t *queue_ids, size_t rows, const struct queue_table *queues, uint8_t *queue_offsets);

/* Records that differ in these columns alone; int32 and int64 of this host, at any alignment. */
struct record_columns {
    struct record shared;
    struct ranges bodies;
    struct ranges properties;
    const uint8_t *queue_ids; /* int32 */
    const uint8_t *flags;     /* int32 */
    const uint8_t *queue_offsets;
    const uint8_t *born_timestamps;
};

/* Bytes of all records, or -1 and the reason in *refusal. */
int64_t columns_size(const struct record_columns *columns, size_t count, const char **refusal);

/*
 * Writes the records one behind the other; `size` is what columns_size() said. None of the columns' bytes may lie in
 * at[0, size). 0 if the columns have changed meanwhile so that they do not fit any more: nothing is written beyond
 * at[0, size) then.
 */
int encode_columns(uint8_t *at, int64_t size, const struct record_columns *columns, size_t count);

#endif
