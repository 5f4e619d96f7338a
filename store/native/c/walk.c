/* The walk over record frames, which decides from untrusted bytes what is at a position. */
#include "walk.h"

#include "byteorder.h"
#include "crc32.h"
#include "record.h"

/*
 * Examines the frame at `position`, of which `left` = stop - position >= HEAD_SIZE bytes may be read. Returns END and
 * fills `row` if there is a whole record; any other value tells what is there instead. Every length is loaded once,
 * checked as a 64-bit number, and only then used.
 */
static enum walk_end examine(const uint8_t *data, int64_t position, int64_t left, int64_t physical_base, int check_crc,
                             struct frame_row *row) {
    const uint8_t *frame = data + position;
    const int32_t size = load32_once(frame + SIZE_AT);
    const int32_t magic = load32_once(frame + MAGIC_AT);
    if (size == 0 && magic == 0) return EMPTY;
    if (magic == MAGIC_BLANK) return size < HEAD_SIZE ? BAD_LENGTHS : BLANK;
    if (magic != MAGIC_V1 && magic != MAGIC_V2) return BAD_MAGIC;
    /* Every record of at least the least size contains the flags, which are read after its presence is checked. */
    if (size < fixed_size(magic, 0)) return BAD_LENGTHS;
    if (size > left) return TRUNCATED;
    const int32_t sys_flag = load32_once(frame + SYS_FLAG_AT);
    const int64_t variable_size = (int64_t)size - fixed_size(magic, sys_flag);
    if (variable_size < 0) return BAD_LENGTHS;

    const uint8_t *after_born = frame + born_host_size(sys_flag);
    const uint8_t *after_hosts = after_born + store_host_size(sys_flag);
    const int32_t body_size = load32_once(after_hosts + BODY_SIZE_AT);
    if (body_size < 0 || body_size > variable_size) return BAD_LENGTHS;
    const uint8_t *body = after_hosts + BODY_AT;
    const uint8_t *topic_length = body + body_size;
    const int32_t topic_size = magic == MAGIC_V2 ? load16_once(topic_length) : load8_once(topic_length);
    if (topic_size < 0 || topic_size > variable_size - body_size) return BAD_LENGTHS;
    const uint8_t *topic = topic_length + topic_length_size(magic);
    const uint8_t *properties_length = topic + topic_size;
    const int32_t properties_size = load16_once(properties_length);
    if (properties_size < 0 || properties_size != variable_size - body_size - topic_size) return BAD_LENGTHS;

    const int64_t physical_offset = load64_once(frame + PHYSICAL_OFFSET_AT);
    int64_t place;
    if (__builtin_add_overflow(physical_base, position, &place) || place != physical_offset) return BAD_OFFSET;

    const int32_t body_crc = load32_once(frame + BODY_CRC_AT);
    row->position = little64((uint64_t)position);
    row->physical_offset = little64((uint64_t)physical_offset);
    row->queue_offset = little64((uint64_t)load64_once(frame + QUEUE_OFFSET_AT));
    row->born_timestamp_ms = little64((uint64_t)load64_once(frame + BORN_TIMESTAMP_AT));
    row->store_timestamp_ms = little64((uint64_t)load64_once(after_born + STORE_TIMESTAMP_AT));
    row->prepared_transaction_offset = little64((uint64_t)load64_once(after_hosts + PREPARED_OFFSET_AT));
    row->body_position = little64((uint64_t)(body - data));
    row->topic_position = little64((uint64_t)(topic - data));
    row->properties_position = little64((uint64_t)(properties_length + PROPERTIES_LENGTH_SIZE - data));
    row->size = little32((uint32_t)size);
    row->magic = little32((uint32_t)magic);
    row->body_crc = little32((uint32_t)body_crc);
    row->queue_id = little32((uint32_t)load32_once(frame + QUEUE_ID_AT));
    row->flag = little32((uint32_t)load32_once(frame + FLAG_AT));
    row->sys_flag = little32((uint32_t)sys_flag);
    row->reconsume_times = little32((uint32_t)load32_once(after_hosts + RECONSUME_TIMES_AT));
    row->body_size = little32((uint32_t)body_size);
    row->topic_size = little32((uint32_t)topic_size);
    row->properties_size = little32((uint32_t)properties_size);
    row->crc_ok = little32(!check_crc || masked_crc32(body, (size_t)body_size) == (uint32_t)body_crc);
    row->reserved = 0;
    return END;
}

/* Records are prefetched this far ahead, assuming that all have the size of this one: otherwise the walk would know
 * only the next one, and wait for it. */
#define AHEAD 4
#define LINE_SIZE 64

static inline void ask_ahead(const uint8_t *frame, int64_t size, int64_t left) {
    if (size > left / (AHEAD + 1)) return;
    const uint8_t *next = frame + AHEAD * size; /* the end of the previous record is just below */
    __builtin_prefetch(next - LINE_SIZE);
    __builtin_prefetch(next);
    __builtin_prefetch(next + LINE_SIZE);
}

enum walk_end walk_frames(const uint8_t *data, int64_t *position, int64_t stop, int64_t physical_base, int check_crc,
                          uint8_t *rows, size_t capacity, size_t *count) {
    int64_t at = *position;
    size_t filled = 0;
    enum walk_end end = END;
    while (stop - at >= HEAD_SIZE) {
        struct frame_row row;
        if (filled == capacity) {
            end = ROWS_FULL;
            break;
        }
        end = examine(data, at, stop - at, physical_base, check_crc, &row);
        if (end != END) break;
        memcpy(rows + filled * sizeof row, &row, sizeof row);
        filled++;
        const int32_t size = (int32_t)little32(row.size);
        ask_ahead(data + at, size, stop - at);
        at += size;
    }
    *position = at;
    *count = filled;
    return end;
}

enum walk_end look_at(const uint8_t *data, struct bytes place, int64_t physical_base, int check_crc,
                      struct frame_row *row) {
    if (place.size < HEAD_SIZE) return BAD_LENGTHS;
    const enum walk_end end = examine(data, place.data - data, (int64_t)place.size, physical_base, check_crc, row);
    return end == END && (int32_t)little32(row->size) != (int64_t)place.size ? BAD_LENGTHS : end;
}

/* The hardware prefetches the rest of a longer record, which is read sequentially. */
#define ASKED_SIZE 2048

void ask_for_place(const struct ranges *places, size_t i, size_t count) {
    struct bytes place;
    if (i >= count || !range_at(places, i, &place)) return;
    const size_t size = place.size < ASKED_SIZE ? place.size : ASKED_SIZE;
    for (size_t at = 0; at < size; at += LINE_SIZE) __builtin_prefetch(place.data + at);
}

enum walk_end walk_places(const struct ranges *places, size_t wanted, int64_t physical_base, const uint8_t *bases,
                          int check_crc, uint8_t *rows, size_t capacity, size_t *count) {
    const uint8_t *data = places->data.data;
    enum walk_end end = END;
    size_t filled = 0;
    while (filled < wanted && end == END) {
        struct frame_row row;
        struct bytes place;
        ask_for_place(places, filled + PLACES_AHEAD, wanted);
        if (filled == capacity) {
            end = ROWS_FULL;
        } else if (!range_at(places, filled, &place)) {
            end = BAD_LENGTHS;
        } else {
            const int64_t base = bases == NULL ? physical_base : column64_once(bases, filled);
            end = look_at(data, place, base, check_crc, &row);
        }
        if (end == END) memcpy(rows + filled++ * sizeof row, &row, sizeof row);
    }
    *count = filled;
    return end;
}
