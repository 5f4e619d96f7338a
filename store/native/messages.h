/* From queue entries to the messages that they stand for: where the records lie, and what a record's fields say. */
#ifndef FLIGHTLOG_MESSAGES_H
#define FLIGHTLOG_MESSAGES_H

#include <stddef.h>
#include <stdint.h>

#include "encode.h"

/* An entry of a queue: physical offset i64, size i32, tags code i64. */
#define UNIT_SIZE 20

/*
 * Where the records of the leading entries lie in a log that begins at `physical_base`, as columns of int64. Stops at
 * the first that points at none or at one before the log, or for which `max_size` bytes of records leave no room.
 * Returns how many they are, and their bytes in *size.
 */
size_t places_of(const uint8_t *units, size_t count, int64_t physical_base, int64_t max_size, uint8_t *starts,
                 uint8_t *sizes, int64_t *size);

/* The fields of a record, read from its bytes without the body. */
struct fields {
    int32_t size, magic, body_crc, queue_id, flag, sys_flag, reconsume_times, body_size;
    int64_t queue_offset, physical_offset, born_timestamp_ms, store_timestamp_ms, prepared_transaction_offset;
    struct bytes store_host, topic, properties;
};

/* 0 unless these bytes, which nobody changes meanwhile, are a whole record but for its body. */
int fields_of(struct bytes rest, struct fields *found);

#endif
