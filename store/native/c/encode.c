/* Encodes one record into a buffer; its first eight bytes are written last. */
#include "encode.h"

#include "byteorder.h"
#include "crc32.h"
#include "record.h"

int32_t record_size(const struct record *record, const char **refusal) {
    if (record->magic != MAGIC_V1 && record->magic != MAGIC_V2) {
        *refusal = "magic is neither that of a V1 nor that of a V2 record";
        return 0;
    }
    if (record->born_host.size != (size_t)born_host_size(record->sys_flag)) {
        *refusal = "born_host must have 8 bytes, or 20 with bit 0x10 of sys_flag";
        return 0;
    }
    if (record->store_host.size != (size_t)store_host_size(record->sys_flag)) {
        *refusal = "store_host must have 8 bytes, or 20 with bit 0x20 of sys_flag";
        return 0;
    }
    if (record->topic.size > (record->magic == MAGIC_V1 ? TOPIC_MAX_V1 : TOPIC_MAX_V2)) {
        *refusal = "topic exceeds 127 bytes (V1) or 32767 bytes (V2)";
        return 0;
    }
    if (record->properties.size > PROPERTIES_MAX) {
        *refusal = "properties exceed 32767 bytes";
        return 0;
    }
    const size_t fixed = (size_t)fixed_size(record->magic, record->sys_flag);
    const size_t rest = fixed + record->topic.size + record->properties.size;
    if (record->body.size > (size_t)INT32_MAX - rest) {
        *refusal = "the record exceeds 2147483647 bytes";
        return 0;
    }
    return (int32_t)(rest + record->body.size);
}

/* memcpy requires valid pointers even for no bytes, and the address of an empty buffer may be NULL. */
static uint8_t *append(uint8_t *at, struct bytes bytes) {
    if (bytes.size > 0) memcpy(at, bytes.data, bytes.size);
    return at + bytes.size;
}

void publish_head(uint8_t *at, int32_t size, int32_t magic) {
    publish64(at, (uint64_t)(uint32_t)size << 32 | (uint32_t)magic);
}

/* The fields before the body, except its CRC. Returns the position of the body. */
static size_t write_head(uint8_t *at, const struct record *record) {
    store32(at + QUEUE_ID_AT, record->queue_id);
    store32(at + FLAG_AT, record->flag);
    store64(at + QUEUE_OFFSET_AT, record->queue_offset);
    store64(at + PHYSICAL_OFFSET_AT, record->physical_offset);
    store32(at + SYS_FLAG_AT, record->sys_flag);
    store64(at + BORN_TIMESTAMP_AT, record->born_timestamp_ms);
    uint8_t *next = append(at + BORN_HOST_AT, record->born_host);
    store64(next, record->store_timestamp_ms);
    next = append(next + 8, record->store_host);
    store32(next, record->reconsume_times);
    store64(next + 4, record->prepared_transaction_offset);
    store32(next + 12, (int32_t)record->body.size);
    return (size_t)(next + 16 - at);
}

static uint8_t *write_topic(uint8_t *at, const struct record *record) {
    if (record->magic == MAGIC_V2) {
        store16(at, (int16_t)record->topic.size);
        at += 2;
    } else {
        *at++ = (uint8_t)record->topic.size;
    }
    return append(at, record->topic);
}

/* The body and its CRC. Returns the position of the topic. */
static uint8_t *write_body(uint8_t *at, uint8_t *body, struct bytes bytes) {
    /* The CRC of the copy, because another thread may change the original. */
    store32(at + BODY_CRC_AT, (int32_t)masked_crc32_copy(body, bytes.data, bytes.size));
    return body + bytes.size;
}

static void write_properties(uint8_t *at, const struct record *record) {
    store16(at, (int16_t)record->properties.size);
    append(at + PROPERTIES_LENGTH_SIZE, record->properties);
}

void encode_hidden(uint8_t *at, const struct record *record) {
    uint8_t *const body = at + write_head(at, record);
    write_properties(write_topic(write_body(at, body, record->body), record), record);
}

void encode_record(uint8_t *at, int32_t size, const struct record *record) {
    encode_hidden(at, record);
    publish_head(at, size, record->magic);
}

/* ---- many records that share most fields ---- */

void lay_out(struct mold *mold, const struct record *shared) {
    mold->topic_size = 0;
    if (shared->topic.size > TOPIC_MAX_V1 - 1) return; /* in V2 the length takes two bytes */
    memset(mold->head, 0, sizeof mold->head);
    mold->head_size = write_head(mold->head, shared);
    mold->topic_size = (size_t)(write_topic(mold->topic, shared) - mold->topic);
}

void encode_from_mold(uint8_t *at, int32_t size, const struct mold *mold, const struct record *record) {
    enum { V4_SIZE = BODY_AT + 2 * HOST_V4_SIZE };
    if (mold->head_size == V4_SIZE) memcpy(at + HEAD_SIZE, mold->head + HEAD_SIZE, V4_SIZE - HEAD_SIZE);
    else memcpy(at + HEAD_SIZE, mold->head + HEAD_SIZE, mold->head_size - HEAD_SIZE);
    store32(at + QUEUE_ID_AT, record->queue_id);
    store32(at + FLAG_AT, record->flag);
    store64(at + QUEUE_OFFSET_AT, record->queue_offset);
    store64(at + PHYSICAL_OFFSET_AT, record->physical_offset);
    store64(at + BORN_TIMESTAMP_AT, record->born_timestamp_ms);
    uint8_t *const body = at + mold->head_size;
    store32(body - 4, (int32_t)record->body.size);
    uint8_t *const next = write_body(at, body, record->body);
    memcpy(next, mold->topic, mold->topic_size);
    write_properties(next + mold->topic_size, record);
    publish_head(at, size, record->magic);
}
