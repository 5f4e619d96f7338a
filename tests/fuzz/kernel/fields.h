/* Records from the input: every field any number, and parts whose sizes are mostly small, sometimes at a limit. */
#ifndef FLIGHTLOG_FUZZ_FIELDS_H
#define FLIGHTLOG_FUZZ_FIELDS_H

#include "fuzz.h"

static inline size_t take_size(struct source *source) {
    static const size_t limits[] = {255, 256, 257, 1000, 2000, 32767, 32768};
    const size_t size = take(source, 1), limit_count = sizeof limits / sizeof *limits;
    return size < 256 - limit_count ? size : limits[size - (256 - limit_count)];
}

/* As many bytes as the input still has, then letters. */
UNWATCHED static struct bytes take_part(struct source *source, size_t size) {
    uint8_t *copy = exactly(size);
    const size_t taken = size < source->size ? size : source->size;
    take_into(source, copy, taken);
    if (size > taken) memset(copy + taken, 'x', size - taken);
    return (struct bytes){copy, size};
}

/* What is shared by all records of encode_columns. The hosts' sizes fit the flags, but for a few that do not. */
static inline struct record take_shared(struct source *source) {
    struct record record = {0};
    const uint8_t kind = (uint8_t)take(source, 1);
    record.magic = kind == 255 ? (int32_t)take(source, 4) : kind & 1 ? MAGIC_V2 : MAGIC_V1;
    record.sys_flag = (int32_t)take(source, 4);
    record.physical_offset = (int64_t)take(source, 8);
    record.store_timestamp_ms = (int64_t)take(source, 8);
    record.born_host = take_bytes(source, kind == 254 ? take(source, 1) : (size_t)born_host_size(record.sys_flag));
    record.store_host = take_bytes(source, kind == 253 ? take(source, 1) : (size_t)store_host_size(record.sys_flag));
    record.topic = take_part(source, take_size(source));
    return record;
}

static inline void drop_shared(const struct record *record) {
    drop(record->born_host);
    drop(record->store_host);
    drop(record->topic);
}

/* The record that stands at `at`, as the walk finds it, is this one. */
UNWATCHED static void check_stands(const uint8_t *at, int32_t size, const struct record *record) {
    struct frame_row row;
    int64_t position = 0, base = record->physical_offset;
    size_t count = 0;
    CHECK(walk_frames(at, &position, size, base, 1, (uint8_t *)&row, 1, &count) == END);
    CHECK(count == 1 && position == size && row.crc_ok == 1);
    CHECK((int32_t)row.size == size && (int32_t)row.magic == record->magic);
    CHECK(row.body_crc == plain_masked_crc32(record->body.data, record->body.size));
    CHECK((int32_t)row.queue_id == record->queue_id && (int32_t)row.flag == record->flag);
    CHECK((int32_t)row.sys_flag == record->sys_flag && (int32_t)row.reconsume_times == record->reconsume_times);
    CHECK((int64_t)row.queue_offset == record->queue_offset);
    CHECK((int64_t)row.physical_offset == record->physical_offset);
    CHECK((int64_t)row.born_timestamp_ms == record->born_timestamp_ms);
    CHECK((int64_t)row.store_timestamp_ms == record->store_timestamp_ms);
    CHECK((int64_t)row.prepared_transaction_offset == record->prepared_transaction_offset);
    const struct {
        uint64_t position;
        uint32_t size;
        struct bytes part;
    } parts[] = {
        {BORN_HOST_AT, (uint32_t)born_host_size(record->sys_flag), record->born_host},
        {STORE_HOST_AT + record->born_host.size, (uint32_t)store_host_size(record->sys_flag), record->store_host},
        {row.body_position, row.body_size, record->body},
        {row.topic_position, row.topic_size, record->topic},
        {row.properties_position, row.properties_size, record->properties},
    };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        CHECK(parts[i].size == parts[i].part.size);
        CHECK(parts[i].size == 0 || memcmp(at + parts[i].position, parts[i].part.data, parts[i].size) == 0);
    }
}

#endif
