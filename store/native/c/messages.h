/* From queue entries to the messages that they stand for: where the records lie, and what a record's fields say. */
#ifndef FLIGHTLOG_MESSAGES_H
#define FLIGHTLOG_MESSAGES_H

#include <stddef.h>
#include <stdint.h>

#include "encode.h"

/* An entry of a queue: physical offset i64, size i32, tags code i64. */
#define UNIT_SIZE 20

/* A bit of the system flags: the body holds many messages. */
#define INNER_BATCH 0x80

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

/* Entries of one queue, and what they are to stand for. */
struct entries {
    const uint8_t *units;
    const uint8_t *queue_offsets; /* int64 of this host, at any alignment */
    size_t count;
    int64_t physical_base; /* of the log's first byte */
    int64_t max_size;      /* bytes of records that are looked at */
    int32_t queue_id;
    struct bytes topic;
};

/*
 * A frame_row for each of the leading entries whose record checks and is what the entry stands for, and their bodies,
 * one behind the other: none if `bodies` is NULL. Stops at the first that is odd or for which there is no room.
 * Returns how many there are, and the bytes of their bodies in *copied; behind these a body may stand that differs from
 * its CRC. Log, entries and rows may be changed meanwhile.
 */
size_t entry_rows(struct bytes log, const struct entries *entries, uint8_t *rows, size_t capacity, uint8_t *bodies,
                  size_t bodies_size, size_t *copied);

#endif
