/* Columns in and out. Every number of a column is bounds checked where it is used, because it may change meanwhile. */
#include "columns.h"

#include <string.h>

#include "byteorder.h"
#include "record.h"

int range_at(const struct ranges *ranges, size_t i, struct bytes *found) {
    const int64_t start = column64_once(ranges->starts, i), size = column64_once(ranges->sizes, i);
    if (start < 0 || size < 0 || (uint64_t)size > ranges->data.size) return 0;
    if ((uint64_t)start > ranges->data.size - (uint64_t)size) return 0;
    /* The address of an empty buffer may be NULL, to which nothing may be added. */
    found->data = size > 0 ? ranges->data.data + start : NULL;
    found->size = (size_t)size;
    return 1;
}

int64_t ranges_size(const struct ranges *ranges, size_t count) {
    int64_t size = 0;
    for (size_t i = 0; i < count; i++) {
        struct bytes range;
        if (!range_at(ranges, i, &range) || __builtin_add_overflow(size, (int64_t)range.size, &size)) return -1;
    }
    return size;
}

int gather_ranges(const struct ranges *ranges, size_t count, uint8_t *out, size_t out_size) {
    size_t done = 0;
    for (size_t i = 0; i < count; i++) {
        struct bytes range;
        if (!range_at(ranges, i, &range) || range.size > out_size - done) return 0;
        if (range.size > 0) memcpy(out + done, range.data, range.size);
        done += range.size;
    }
    return done == out_size;
}

/* The last queue with an id of at most this one, or the first queue. There is at least one queue. */
static size_t find_queue(const struct queue_table *queues, int32_t id) {
    size_t place = 0;
    for (size_t left = queues->count; left > 1;) {
        const size_t half = left / 2;
        place = column32_once(queues->ids, place + half) <= id ? place + half : place;
        left -= half;
    }
    return place;
}

int number_rows(const uint8_t *queue_ids, size_t rows, const struct queue_table *queues, uint8_t *queue_offsets) {
    for (size_t i = 1; i < queues->count; i++) {
        if (column32_once(queues->ids, i) <= column32_once(queues->ids, i - 1)) return 0;
    }
    for (size_t row = 0; row < rows; row++) {
        const int32_t id = column32_once(queue_ids, row);
        if (queues->count == 0 || column32_once(queues->ids, find_queue(queues, id)) != id) return 0;
    }
    for (size_t row = 0; row < rows; row++) {
        uint8_t *const next = queues->next_offsets + 8 * find_queue(queues, column32_once(queue_ids, row));
        uint64_t offset;
        memcpy(&offset, next, 8);
        memcpy(queue_offsets + 8 * row, &offset, 8);
        offset++;
        memcpy(next, &offset, 8);
    }
    return 1;
}

/* Size of a record without body and properties; 0, and the reason, if there can be no such record. */
static int32_t bare_size(const struct record_columns *columns, const char **refusal) {
    struct record bare = columns->shared;
    bare.body = bare.properties = (struct bytes){NULL, 0};
    return record_size(&bare, refusal);
}

/* The fields of row i, and the size of its record; 0, and the reason, if there can be none. */
static int32_t take_row(const struct record_columns *columns, size_t i, int32_t bare, struct record *record,
                        const char **refusal) {
    if (!range_at(&columns->bodies, i, &record->body)) {
        *refusal = "a body lies outside of its buffer";
        return 0;
    }
    if (!range_at(&columns->properties, i, &record->properties)) {
        *refusal = "properties lie outside of their buffer";
        return 0;
    }
    if (record->properties.size > PROPERTIES_MAX) {
        *refusal = "properties exceed 32767 bytes";
        return 0;
    }
    const size_t rest = (size_t)bare + record->properties.size;
    if (record->body.size > (size_t)INT32_MAX - rest) {
        *refusal = "the record exceeds 2147483647 bytes";
        return 0;
    }
    return (int32_t)(rest + record->body.size);
}

int64_t columns_size(const struct record_columns *columns, size_t count, const char **refusal) {
    int64_t size = 0;
    const int32_t bare = count > 0 ? bare_size(columns, refusal) : 0;
    if (count > 0 && bare == 0) return -1;
    for (size_t i = 0; i < count; i++) {
        struct record record;
        const int32_t one = take_row(columns, i, bare, &record, refusal);
        if (one == 0) return -1;
        if (__builtin_add_overflow(size, (int64_t)one, &size)) {
            *refusal = "the records exceed 64 bits";
            return -1;
        }
    }
    int64_t end;
    if (__builtin_add_overflow(columns->shared.physical_offset, size, &end)) {
        *refusal = "the records reach beyond the last physical offset";
        return -1;
    }
    return size;
}

int encode_columns(uint8_t *at, int64_t size, const struct record_columns *columns, size_t count) {
    int64_t done = 0;
    const char *refusal;
    struct record record = columns->shared;
    const int32_t bare = count > 0 ? bare_size(columns, &refusal) : 0;
    if (count > 0 && bare == 0) return 0;
    record.body = record.properties = (struct bytes){NULL, 0};
    struct mold mold;
    mold.topic_size = 0;
    if (count > 1) lay_out(&mold, &record);
    for (size_t i = 0; i < count; i++) {
        const int32_t one = take_row(columns, i, bare, &record, &refusal);
        if (one == 0 || one > size - done) return 0;
        record.queue_id = column32_once(columns->queue_ids, i);
        record.flag = column32_once(columns->flags, i);
        record.queue_offset = column64_once(columns->queue_offsets, i);
        record.born_timestamp_ms = column64_once(columns->born_timestamps, i);
        record.physical_offset = columns->shared.physical_offset + done;
        if (mold.topic_size > 0) encode_from_mold(at + done, one, &mold, &record);
        else encode_record(at + done, one, &record);
        done += one;
    }
    return done == size;
}
