/* Converts the rows of a walk to queue entries and keys. The log may change meanwhile: that may change values, but
 * every bound is checked on the value that was loaded. */
#include "listing.h"

#include <stdlib.h>

#include "byteorder.h"
#include "java_text.h"
#include "record.h"
#include "walk.h"

#define TRANSACTION_MASK 0xC
#define TRANSACTION_NONE 0x0
#define TRANSACTION_COMMIT 0x8
#define TRANSACTION_ROLLBACK 0xC
#define INNER_BATCH 0x80
#define NAME_END 1
#define VALUE_END 2
#define ROW_SIZE sizeof(struct frame_row)

#define ROW32(row, field) ((int32_t)little32((uint32_t)column32_once((row) + offsetof(struct frame_row, field), 0)))
#define ROW64(row, field) ((int64_t)little64((uint64_t)column64_once((row) + offsetof(struct frame_row, field), 0)))

struct span {
    const uint8_t *at;
    size_t size;
};

static int span_in(struct bytes data, int64_t position, int64_t size, struct span *span) {
    if (position < 0 || size < 0 || (uint64_t)size > data.size || (uint64_t)position > data.size - (uint64_t)size) {
        return 0;
    }
    *span = (struct span){data.data + position, (size_t)size};
    return 1;
}

static int texts_of(struct bytes data, const uint8_t *row, struct span *topic, struct span *properties) {
    return span_in(data, ROW64(row, topic_position), ROW32(row, topic_size), topic) &&
           span_in(data, ROW64(row, properties_position), ROW32(row, properties_size), properties);
}

/* Texts are prefetched this many rows ahead: they are a record apart. */
#define AHEAD 8
#define LINE_SIZE 64
#define ASKED_SIZE 256

static void ask_for_texts(struct bytes data, const uint8_t *row) {
    struct span topic, properties;
    if (!texts_of(data, row, &topic, &properties)) return;
    const size_t size = properties.size < ASKED_SIZE ? properties.size : ASKED_SIZE;
    __builtin_prefetch(topic.at);
    for (size_t at = 0; at < size; at += LINE_SIZE) __builtin_prefetch(properties.at + at);
}

int rows_are_inside(struct bytes data, const uint8_t *rows, size_t count) {
    struct span topic, properties;
    for (size_t i = 0; i < count; i++) {
        if (!texts_of(data, rows + i * ROW_SIZE, &topic, &properties)) return 0;
    }
    return 1;
}

/* ---- properties ---- */

struct properties {
    struct span tags, keys, uniq_key;
    int has_light_queues;
};

/* The first such byte in [at, stop), or stop. Texts are short, so a call of memchr would cost more than the search. */
static const uint8_t *find_byte(const uint8_t *at, const uint8_t *stop, uint8_t wanted) {
    const uint64_t ones = 0x0101010101010101u, pattern = ones * wanted;
    for (; stop - at >= 8; at += 8) {
        uint64_t bytes;
        memcpy(&bytes, at, 8);
        bytes = little64(bytes) ^ pattern;
        const uint64_t zeros = (bytes - ones) & ~bytes & (ones << 7);
        if (zeros != 0) return at + (__builtin_ctzll(zeros) >> 3);
    }
    while (at < stop && *(const volatile uint8_t *)at != wanted) at++;
    return at;
}

#define IS_NAMED(at, size, name) ((size) >= sizeof(name) - 1 && memcmp(at, name, sizeof(name) - 1) == 0)

/* Of two pairs with the same name the later one counts; a pair without a value is ignored. */
static void take_value(const uint8_t *at, size_t size, size_t name_size, struct span *value) {
    if (size > name_size) *value = (struct span){at + name_size, size - name_size};
}

static struct properties parse(struct span text) {
    struct properties found = {{NULL, 0}, {NULL, 0}, {NULL, 0}, 0};
    const uint8_t *at = text.at, *const stop = text.at + text.size;
    while (at < stop) {
        const uint8_t *end = find_byte(at, stop, VALUE_END);
        const size_t size = (size_t)(end - at);
        if (IS_NAMED(at, size, "TAGS\x01")) take_value(at, size, 5, &found.tags);
        else if (IS_NAMED(at, size, "KEYS\x01")) take_value(at, size, 5, &found.keys);
        else if (IS_NAMED(at, size, "UNIQ_KEY\x01")) take_value(at, size, 9, &found.uniq_key);
        else if (IS_NAMED(at, size, "INNER_MULTI_QUEUE_OFFSET\x01")) found.has_light_queues = 1;
        if (end == stop) break;
        at = end + 1;
    }
    return found;
}

/* ---- keys ---- */

struct owner {
    int64_t physical_offset;
    int64_t store_timestamp_ms;
    uint32_t prefix; /* the hash of topic and "#" */
};

static void put_key(struct listing *listing, const struct owner *owner, const uint8_t *key, size_t size) {
    const size_t i = listing->key_count++;
    if (i >= listing->key_room) return;
    uint32_t hash = java_hash_from(owner->prefix, key, size);
    if (hash > 0x80000000u) hash = 0u - hash;
    else if (hash == 0x80000000u) hash = 0; /* the one number without an absolute value */
    memcpy(listing->key_hashes + 4 * i, &hash, 4);
    memcpy(listing->key_offsets + 8 * i, &owner->physical_offset, 8);
    memcpy(listing->key_times + 8 * i, &owner->store_timestamp_ms, 8);
}

static void put_keys(struct listing *listing, const struct owner *owner, const struct properties *properties) {
    if (properties->uniq_key.size > 0) put_key(listing, owner, properties->uniq_key.at, properties->uniq_key.size);
    if (properties->keys.size == 0) return;
    const uint8_t *at = properties->keys.at, *const stop = at + properties->keys.size;
    for (;; at++) {
        const uint8_t *end = find_byte(at, stop, ' ');
        if (end > at) put_key(listing, owner, at, (size_t)(end - at));
        if (end == stop) return;
        at = end;
    }
}

/* ---- queues ---- */

struct queue {
    struct span topic;
    int64_t first_offset;
    int64_t last_offset;
    size_t place; /* the index in `units` of its next entry */
    uint64_t topic_mix;
    int32_t queue_id;
    uint32_t first_row;
    uint32_t count;
    uint32_t is_run;
};

struct scratch {
    struct queue *queues;
    uint8_t *units;      /* in the order of the rows */
    uint32_t *unit_rows; /* the queue of each unit */
    uint32_t *unit_queues;
    uint32_t *apart;
    uint32_t *table; /* hash table: queue number + 1, by topic and queue id */
    size_t mask;     /* of the table's places */
};

static int prepare(struct scratch *scratch, size_t rows) {
    size_t places = 16;
    while (places < 2 * rows) places *= 2;
    scratch->mask = places - 1;
    scratch->queues = malloc(rows * (sizeof(struct queue) + UNIT_SIZE + 3 * sizeof(uint32_t)) + 1);
    scratch->table = calloc(places, sizeof(uint32_t));
    if (scratch->queues == NULL || scratch->table == NULL) {
        free(scratch->queues);
        free(scratch->table);
        return 0;
    }
    scratch->unit_rows = (uint32_t *)(scratch->queues + rows);
    scratch->unit_queues = scratch->unit_rows + rows;
    scratch->apart = scratch->unit_queues + rows;
    scratch->units = (uint8_t *)(scratch->apart + rows);
    return 1;
}

#define MIXER 0x9E3779B97F4A7C15u

static uint64_t mix(uint64_t mixed, uint64_t more) {
    mixed = (mixed ^ more) * MIXER;
    return mixed ^ mixed >> 32;
}

/*
 * The hash of a topic in the table. Not its Java hash, for which an attacker can choose colliding topics: a listing
 * would then take quadratic time. The address of the table is the seed, which is unknown in advance.
 */
static uint64_t mix_text(const struct scratch *scratch, struct span text) {
    uint64_t mixed = mix((uintptr_t)scratch->table, text.size), word;
    size_t at = 0;
    for (; text.size - at >= 8; at += 8) {
        memcpy(&word, text.at + at, 8);
        mixed = mix(mixed, word);
    }
    word = 0;
    memcpy(&word, text.at + at, text.size - at);
    return mix(mixed, word);
}

static uint32_t find_queue(struct scratch *scratch, size_t *queue_count, struct span topic, uint64_t topic_mix,
                           int32_t queue_id) {
    for (size_t place = (size_t)mix(topic_mix, (uint32_t)queue_id) & scratch->mask;; place = (place + 1) & scratch->mask) {
        const uint32_t known = scratch->table[place];
        if (known == 0) {
            scratch->queues[*queue_count] =
                (struct queue){.topic = topic, .topic_mix = topic_mix, .queue_id = queue_id, .is_run = 1};
            scratch->table[place] = (uint32_t)++*queue_count;
            return (uint32_t)*queue_count - 1;
        }
        const struct queue *queue = &scratch->queues[known - 1];
        if (queue->topic_mix == topic_mix && queue->queue_id == queue_id && queue->topic.size == topic.size &&
            memcmp(queue->topic.at, topic.at, topic.size) == 0) {
            return known - 1;
        }
    }
}

/* The topic of the previous row, with its hashes. */
struct topic {
    struct span text;
    uint64_t mix;
    uint32_t hash;
    int is_apart;
};

static void recognize(const struct scratch *scratch, struct topic *topic, struct span text, struct bytes apart_topic,
                      int is_first) {
    if (!is_first && text.size == topic->text.size && memcmp(text.at, topic->text.at, text.size) == 0) return;
    topic->text = text;
    topic->hash = java_hash_from(0, text.at, text.size);
    topic->mix = mix_text(scratch, text);
    topic->is_apart = text.size == apart_topic.size && memcmp(text.at, apart_topic.data, text.size) == 0;
    for (size_t i = 0; i < text.size; i++) topic->is_apart |= text.at[i] > 0x7F;
}

static void write_unit(uint8_t *unit, int64_t physical_offset, int32_t size, struct span tags) {
    const int32_t code = tags.size > 0 ? (int32_t)java_hash_from(0, tags.at, tags.size) : 0;
    store64(unit, physical_offset);
    store32(unit + 8, size);
    store64(unit + 12, code);
}

/* Groups the units by queue. */
static void group(struct scratch *scratch, struct listing *listing) {
    size_t place = 0;
    for (size_t i = 0; i < listing->queue_count; i++) {
        struct queue *queue = &scratch->queues[i];
        const struct listed_queue listed = {
            little64((uint64_t)queue->first_offset), little32(queue->first_row), little32((uint32_t)queue->queue_id),
            little32(queue->count), little32(queue->is_run)};
        memcpy(listing->queues + i * sizeof listed, &listed, sizeof listed);
        queue->place = place;
        place += queue->count;
    }
    for (size_t i = 0; i < listing->unit_count; i++) {
        const size_t to = scratch->queues[scratch->unit_queues[i]].place++;
        memcpy(listing->units + UNIT_SIZE * to, scratch->units + UNIT_SIZE * i, UNIT_SIZE);
        memcpy(listing->row_numbers + 4 * to, &scratch->unit_rows[i], 4);
    }
    memcpy(listing->row_numbers + 4 * listing->unit_count, scratch->apart, 4 * listing->apart_count);
}

int list_rows(struct bytes data, const uint8_t *rows, size_t count, struct bytes apart_topic, struct listing *listing) {
    struct scratch scratch;
    struct topic topic = {{NULL, 0}, 0, 0, 0};
    listing->unit_count = listing->apart_count = listing->queue_count = listing->key_count = listing->batch_count = 0;
    if (!prepare(&scratch, count)) return 0;
    int is_first = 1;
    for (size_t i = 0; i < count; i++) {
        const uint8_t *row = rows + i * ROW_SIZE;
        struct span topic_text, properties_text;
        if (i + AHEAD < count) ask_for_texts(data, row + AHEAD * ROW_SIZE);
        if (!texts_of(data, row, &topic_text, &properties_text)) continue;
        const int32_t sys_flag = ROW32(row, sys_flag), transaction = sys_flag & TRANSACTION_MASK;
        const struct properties properties = parse(properties_text);
        recognize(&scratch, &topic, topic_text, apart_topic, is_first);
        is_first = 0;
        const struct owner owner = {ROW64(row, physical_offset), ROW64(row, store_timestamp_ms), topic.hash * 31 + '#'};
        if (transaction != TRANSACTION_ROLLBACK) put_keys(listing, &owner, &properties);

        listing->batch_count += (sys_flag & INNER_BATCH) != 0;
        const int32_t queue_id = ROW32(row, queue_id);
        if ((transaction != TRANSACTION_NONE && transaction != TRANSACTION_COMMIT) || sys_flag & INNER_BATCH ||
            queue_id < 0) {
            continue;
        }
        if (topic.is_apart || properties.has_light_queues) {
            scratch.apart[listing->apart_count++] = (uint32_t)i;
            continue;
        }
        const uint32_t number = find_queue(&scratch, &listing->queue_count, topic.text, topic.mix, queue_id);
        struct queue *queue = &scratch.queues[number];
        const int64_t queue_offset = ROW64(row, queue_offset);
        if (queue->count++ == 0) queue->first_row = (uint32_t)i, queue->first_offset = queue_offset;
        else if (queue->last_offset == INT64_MAX || queue_offset != queue->last_offset + 1) queue->is_run = 0;
        queue->last_offset = queue_offset;
        const size_t unit = listing->unit_count++;
        scratch.unit_rows[unit] = (uint32_t)i;
        scratch.unit_queues[unit] = number;
        write_unit(scratch.units + UNIT_SIZE * unit, owner.physical_offset, ROW32(row, size), properties.tags);
    }
    group(&scratch, listing);
    free(scratch.queues);
    free(scratch.table);
    return 1;
}
