/* The columns of encode_columns from the input; and record i of them, put together by a plain reading of the rules. */
#ifndef FLIGHTLOG_FUZZ_COLUMNS_INPUT_H
#define FLIGHTLOG_FUZZ_COLUMNS_INPUT_H

#include "fields.h"

#define RECORDS_MAX 12

struct columns_input {
    struct record shared;
    size_t count;
    struct bytes queue_ids, flags, queue_offsets, born_timestamps;
    struct bytes body_starts, body_sizes, properties_starts, properties_sizes;
    struct bytes data; /* bodies and properties, both of the same bytes */
};

/* An int64 column: of each number the input has two bytes, or all eight where those are FFFF. */
UNWATCHED static struct bytes take_column64(struct source *source, size_t count) {
    uint8_t *column = exactly(8 * count);
    for (size_t i = 0; i < count; i++) {
        const uint64_t small = take(source, 2), number = small == 0xFFFF ? take(source, 8) : small;
        memcpy(column + 8 * i, &number, 8);
    }
    return (struct bytes){column, 8 * count};
}

static inline struct columns_input take_columns(struct source *source) {
    struct columns_input input;
    input.shared = take_shared(source);
    input.count = take(source, 1) % (RECORDS_MAX + 1);
    input.queue_ids = take_bytes(source, 4 * input.count);
    input.flags = take_bytes(source, 4 * input.count);
    input.queue_offsets = take_bytes(source, 8 * input.count);
    input.born_timestamps = take_bytes(source, 8 * input.count);
    input.body_starts = take_column64(source, input.count);
    input.body_sizes = take_column64(source, input.count);
    input.properties_starts = take_column64(source, input.count);
    input.properties_sizes = take_column64(source, input.count);
    const size_t size = take_size(source);
    input.data = take_part(source, size > source->size ? size : source->size);
    return input;
}

static inline struct record_columns columns_of(const struct columns_input *input) {
    return (struct record_columns){
        .shared = input->shared,
        .bodies = {input->data, input->body_starts.data, input->body_sizes.data},
        .properties = {input->data, input->properties_starts.data, input->properties_sizes.data},
        .queue_ids = input->queue_ids.data,
        .flags = input->flags.data,
        .queue_offsets = input->queue_offsets.data,
        .born_timestamps = input->born_timestamps.data,
    };
}

static inline void drop_columns(const struct columns_input *input) {
    const struct bytes all[] = {input->queue_ids,  input->flags,      input->queue_offsets,     input->born_timestamps,
                                input->body_starts, input->body_sizes, input->properties_starts, input->properties_sizes,
                                input->data};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) drop(all[i]);
    drop_shared(&input->shared);
}

UNWATCHED static int is_inside(struct bytes starts, struct bytes sizes, struct bytes data, size_t i, struct bytes *part) {
    int64_t start, size;
    memcpy(&start, starts.data + 8 * i, 8);
    memcpy(&size, sizes.data + 8 * i, 8);
    if (start < 0 || size < 0 || (unsigned __int128)start + (unsigned __int128)size > data.size) return 0;
    *part = (struct bytes){data.data + start, (size_t)size};
    return 1;
}

/* 0 if a part of it lies outside of the data. */
UNWATCHED static int record_of(const struct columns_input *input, size_t i, int64_t physical_offset,
                            struct record *record) {
    *record = input->shared;
    record->physical_offset = physical_offset;
    memcpy(&record->queue_id, input->queue_ids.data + 4 * i, 4);
    memcpy(&record->flag, input->flags.data + 4 * i, 4);
    memcpy(&record->queue_offset, input->queue_offsets.data + 8 * i, 8);
    memcpy(&record->born_timestamp_ms, input->born_timestamps.data + 8 * i, 8);
    return is_inside(input->body_starts, input->body_sizes, input->data, i, &record->body) &&
           is_inside(input->properties_starts, input->properties_sizes, input->data, i, &record->properties);
}

#endif
