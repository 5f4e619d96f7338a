/* One record into a buffer; its first eight bytes last. */
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

/* memcpy wants valid pointers even for no bytes, and an empty buffer may come without one. */
static uint8_t *append(uint8_t *at, struct bytes bytes) {
    if (bytes.size > 0) memcpy(at, bytes.data, bytes.size);
    return at + bytes.size;
}

void publish_head(uint8_t *at, int32_t size, int32_t magic) {
    publish64(at, (uint64_t)(uint32_t)size << 32 | (uint32_t)magic);
}

void encode_record(uint8_t *at, int32_t size, const struct record *record) {
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
    uint8_t *body = next + 16;
    /* Of the copy: it is what the CRC must fit, should another thread change the original. */
    store32(at + BODY_CRC_AT, (int32_t)masked_crc32_copy(body, record->body.data, record->body.size));
    next = body + record->body.size;
    if (record->magic == MAGIC_V2) {
        store16(next, (int16_t)record->topic.size);
        next += 2;
    } else {
        *next++ = (uint8_t)record->topic.size;
    }
    next = append(next, record->topic);
    store16(next, (int16_t)record->properties.size);
    append(next + PROPERTIES_LENGTH_SIZE, record->properties);
    publish_head(at, size, record->magic);
}
