/* Queue entries and records without bodies. Every number is checked before it is used. */
#include "messages.h"

#include <string.h>

#include "byteorder.h"
#include "columns.h"
#include "crc32.h"
#include "record.h"
#include "walk.h"

size_t places_of(const uint8_t *units, size_t count, int64_t physical_base, int64_t max_size, uint8_t *starts,
                 uint8_t *sizes, int64_t *size) {
    size_t filled = 0;
    *size = 0;
    for (; filled < count; filled++) {
        const uint8_t *unit = units + filled * UNIT_SIZE;
        int64_t start;
        const int64_t one = load32_once(unit + 8);
        if (__builtin_sub_overflow(load64_once(unit), physical_base, &start) || start < 0) break;
        if (one <= 0 || one > max_size - *size) break;
        memcpy(starts + 8 * filled, &start, 8);
        memcpy(sizes + 8 * filled, &one, 8);
        *size += one;
    }
    return filled;
}

int fields_of(struct bytes rest, struct fields *found) {
    const uint8_t *const head = rest.data;
    if (rest.size < (size_t)fixed_size(MAGIC_V1, 0) || rest.size > INT32_MAX) return 0;
    found->size = load32_once(head + SIZE_AT);
    found->magic = load32_once(head + MAGIC_AT);
    if (found->magic != MAGIC_V1 && found->magic != MAGIC_V2) return 0;
    found->sys_flag = load32_once(head + SYS_FLAG_AT);
    const int64_t variable_size = (int64_t)rest.size - fixed_size(found->magic, found->sys_flag);
    if (variable_size < 0) return 0;

    const uint8_t *after_born = head + born_host_size(found->sys_flag);
    const uint8_t *after_hosts = after_born + store_host_size(found->sys_flag);
    found->body_size = load32_once(after_hosts + BODY_SIZE_AT);
    if (found->body_size < 0 || found->size != (int64_t)rest.size + found->body_size) return 0;
    const uint8_t *topic_length = after_hosts + BODY_AT;
    const int32_t topic_size = found->magic == MAGIC_V2 ? load16_once(topic_length) : load8_once(topic_length);
    if (topic_size < 0 || topic_size > variable_size) return 0;
    const uint8_t *topic = topic_length + topic_length_size(found->magic);
    const uint8_t *properties_length = topic + topic_size;
    const int32_t properties_size = load16_once(properties_length);
    if (properties_size != variable_size - topic_size) return 0;

    found->body_crc = load32_once(head + BODY_CRC_AT);
    found->queue_id = load32_once(head + QUEUE_ID_AT);
    found->flag = load32_once(head + FLAG_AT);
    found->queue_offset = load64_once(head + QUEUE_OFFSET_AT);
    found->physical_offset = load64_once(head + PHYSICAL_OFFSET_AT);
    found->born_timestamp_ms = load64_once(head + BORN_TIMESTAMP_AT);
    found->store_timestamp_ms = load64_once(after_born + STORE_TIMESTAMP_AT);
    found->reconsume_times = load32_once(after_hosts + RECONSUME_TIMES_AT);
    found->prepared_transaction_offset = load64_once(after_hosts + PREPARED_OFFSET_AT);
    found->store_host = (struct bytes){after_born + STORE_HOST_AT, (size_t)store_host_size(found->sys_flag)};
    found->topic = (struct bytes){topic, (size_t)topic_size};
    found->properties = (struct bytes){properties_length + PROPERTIES_LENGTH_SIZE, (size_t)properties_size};
    return 1;
}

/* Whether this record is the message of entry i; the body is not checked. */
static int is_entry(const struct entries *entries, struct bytes log, size_t i, const struct frame_row *row) {
    if ((int32_t)little32(row->sys_flag) & INNER_BATCH) return 0;
    if ((int32_t)little32(row->queue_id) != entries->queue_id) return 0;
    if ((int64_t)little64(row->queue_offset) != column64_once(entries->queue_offsets, i)) return 0;
    const size_t size = little32(row->topic_size);
    const uint8_t *topic = log.data + little64(row->topic_position);
    return size == entries->topic.size && (size == 0 || memcmp(topic, entries->topic.data, size) == 0);
}

/* Whether the body matches its CRC. Copies it at the same time unless `to` is NULL. */
static int is_body_sound(struct bytes log, const struct frame_row *row, uint8_t *to) {
    const uint8_t *const body = log.data + little64(row->body_position);
    const size_t size = little32(row->body_size);
    return little32(row->body_crc) == (to != NULL ? masked_crc32_copy(to, body, size) : masked_crc32(body, size));
}

size_t entry_rows(struct bytes log, const struct entries *entries, uint8_t *rows, size_t capacity, uint8_t *bodies,
                  size_t bodies_size, size_t *copied) {
    enum { TURN = 64 };
    /* Local copies: no other thread can change them between check and use. */
    uint8_t starts[8 * TURN], sizes[8 * TURN];
    const struct ranges places = {log, starts, sizes};
    int64_t left = entries->max_size;
    size_t filled = 0, turn = TURN;
    *copied = 0;
    while (turn == TURN) {
        const size_t next = filled, room = capacity - filled, there = entries->count - filled;
        int64_t size;
        turn = there < TURN ? there : TURN;
        if (room < turn) turn = room;
        turn = places_of(entries->units + next * UNIT_SIZE, turn, entries->physical_base, left, starts, sizes, &size);
        left -= size;
        for (size_t i = 0; i < turn; i++) {
            struct bytes place;
            struct frame_row row;
            ask_for_place(&places, i + PLACES_AHEAD, turn);
            if (!range_at(&places, i, &place)) return filled;
            if (look_at(log.data, place, entries->physical_base, 0, &row) != END) return filled;
            if (!is_entry(entries, log, next + i, &row)) return filled;
            const size_t body_size = little32(row.body_size);
            if (bodies != NULL && body_size > bodies_size - *copied) return filled;
            if (!is_body_sound(log, &row, bodies != NULL ? bodies + *copied : NULL)) return filled;
            if (bodies != NULL) *copied += body_size;
            memcpy(rows + filled++ * sizeof row, &row, sizeof row);
        }
    }
    return filled;
}
