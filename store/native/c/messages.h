/* From queue entries to messages: the places of records, and the fields of a record. */
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
 * The places of the records of the leading entries, in a log that begins at `physical_base`, as int64 columns. Stops at
 * the first entry that refers to no record or to one before the log, or whose record exceeds `max_size` bytes in total.
 * Returns the number of entries, and the bytes of their records in *size.
 */
size_t places_of(const uint8_t *units, size_t count, int64_t physical_base, int64_t max_size, uint8_t *starts,
                 uint8_t *sizes, int64_t *size);

/* The fields of a record, from its bytes without the body. */
struct fields {
    int32_t size, magic, body_crc, queue_id, flag, sys_flag, reconsume_times, body_size;
    int64_t queue_offset, physical_offset, born_timestamp_ms, store_timestamp_ms, prepared_transaction_offset;
    struct bytes store_host, topic, properties;
};

/* 0 unless these bytes are a record without its body. They must not change meanwhile. */
int fields_of(struct bytes rest, struct fields *found);

/* Entries of one queue, and the expected fields of their records. */
struct entries {
    const uint8_t *units;
    const uint8_t *queue_offsets; /* int64 in host byte order, unaligned */
    size_t count;
    int64_t physical_base; /* physical offset of the log's first byte */
    int64_t max_size;      /* limit of the bytes of records */
    int32_t queue_id;
    struct bytes topic;
};

/*
 * A frame_row for each of the leading entries whose record is valid and is the one of the entry, and their bodies,
 * concatenated (unless `bodies` is NULL). Stops at the first other entry, or without room. Returns the number of rows,
 * and the size of their bodies in *copied; after these, a body that does not match its CRC may have been written. Log,
 * entries and rows may change meanwhile.
 */
size_t entry_rows(struct bytes log, const struct entries *entries, uint8_t *rows, size_t capacity, uint8_t *bodies,
                  size_t bodies_size, size_t *copied);

#endif
