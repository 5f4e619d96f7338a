/* Encodes records into a buffer. */
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

/* The record's size, or 0, and the reason in *refusal, if there can be no such record. */
int32_t record_size(const struct record *record, const char **refusal);

/*
 * Writes all record_size() > 0 bytes at `at`, without the first eight, size and magic. The record's parts must not
 * overlap them.
 */
void encode_hidden(uint8_t *at, const struct record *record);

/* The first eight bytes, with one release store: a reader that sees them sees the rest, too. */
void publish_head(uint8_t *at, int32_t size, int32_t magic);

/* Both. */
void encode_record(uint8_t *at, int32_t size, const struct record *record);

/*
 * The bytes that many records share, encoded once: the fields before the body, and the topic after it with its length.
 * Only for a record that record_size() accepts.
 */
struct mold {
    uint8_t head[BODY_AT + 2 * HOST_V6_SIZE];
    uint8_t topic[1 + TOPIC_MAX_V1];
    size_t head_size, topic_size; /* topic_size 0: the topic is longer, and there is no mold */
};

void lay_out(struct mold *mold, const struct record *shared);

/* As encode_record, for a record that differs from the mold's only in body, properties, and numbers from columns. */
void encode_from_mold(uint8_t *at, int32_t size, const struct mold *mold, const struct record *record);

#endif
