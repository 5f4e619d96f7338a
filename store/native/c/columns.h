/* Gathers many ranges of bytes into one run, and encodes many records from columns. */
#ifndef FLIGHTLOG_COLUMNS_H
#define FLIGHTLOG_COLUMNS_H

#include <stddef.h>
#include <stdint.h>

#include "encode.h"

/* Ranges of `data`: item i is `sizes[i]` bytes from `starts[i]` on. Both are int64 in host byte order, unaligned. */
struct ranges {
    struct bytes data;
    const uint8_t *starts;
    const uint8_t *sizes;
};

/* Range i in *found, or 0 if it is outside of the data. Each number is loaded once, so the checked value is used. */
int range_at(const struct ranges *ranges, size_t i, struct bytes *found);

/* The sum of all sizes, or -1 if a range is outside of the data or the sum exceeds 64 bits. */
int64_t ranges_size(const struct ranges *ranges, size_t count);

/* Copies the ranges into `out`, concatenated. 0 if they have changed and do not take `out_size` bytes any more. */
int gather_ranges(const struct ranges *ranges, size_t count, uint8_t *out, size_t out_size);

/* Queues as two columns: ids (int32, ascending), and the next offset of each queue (int64). */
struct queue_table {
    const uint8_t *ids;
    uint8_t *next_offsets;
    size_t count;
};

/*
 * Gives each row the next offset of its queue; it wraps from the highest int64 to the lowest. 0, and nothing is
 * written, if the ids do not ascend or the queue of a row is not among them.
 */
int number_rows(const uint8_t *queue_ids, size_t rows, const struct queue_table *queues, uint8_t *queue_offsets);

/* Records that differ only in these columns; int32 and int64 in host byte order, unaligned. */
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
 * Writes the records consecutively; `size` is the result of columns_size(). The columns must not overlap at[0, size).
 * 0 if the columns have changed meanwhile and do not fit any more; nothing is written beyond at[0, size) even then.
 */
int encode_columns(uint8_t *at, int64_t size, const struct record_columns *columns, size_t count);

#endif
