/* One record into a buffer. */
#ifndef FLIGHTLOG_ENCODE_H
#define FLIGHTLOG_ENCODE_H

#include <stddef.h>
#include <stdint.h>

#include "record.h"

struct bytes {
    const uint8_t *data;
    size_t size;
};

struct record {
    int32_t magic;
    int32_t queue_id;
    int32_t flag;
    int32_t sys_flag;
    int32_t reconsume_times;
    int64_t queue_offset;
    int64_t physical_offset;
    int64_t born_timestamp_ms;
    int64_t store_timestamp_ms;
    int64_t prepared_transaction_offset;
    struct bytes born_host;
    struct bytes store_host;
    struct bytes body;
    struct bytes topic;
    struct bytes properties;
};

/* The record's bytes, or 0 and the reason in *refusal if no such record can be. */
int32_t record_size(const struct record *record, const char **refusal);

/*
 * Writes all `size` = record_size() > 0 bytes at `at`. The first eight, size and magic, come last and in one store:
 * whoever finds them finds the rest behind them. None of the record's bytes may lie in at[0, size).
 */
void encode_record(uint8_t *at, int32_t size, const struct record *record);

/*
 * What many records share, laid out once: the fields before the body, and the topic behind it with its length. Only for a
 * record that record_size() takes.
 */
struct mold {
    uint8_t head[BODY_AT + 2 * HOST_V6_SIZE];
    uint8_t topic[1 + TOPIC_MAX_V1];
    size_t head_size, topic_size; /* topic_size 0: the topic is longer, and there is no mold */
};

void lay_out(struct mold *mold, const struct record *shared);

/* As encode_record, of a record that differs from the mold's in body, properties, and the numbers that columns have. */
void encode_from_mold(uint8_t *at, int32_t size, const struct mold *mold, const struct record *record);

/* The last step of it alone, for a record that was encoded elsewhere and copied here without its first eight bytes. */
void publish_head(uint8_t *at, int32_t size, int32_t magic);

#endif
