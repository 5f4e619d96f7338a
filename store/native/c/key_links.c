/* Linking keys: each entry refers to the previous one in its slot. */
#include "key_links.h"

#include <stdlib.h>

#include "byteorder.h"

#define AHEAD 16 /* slots are prefetched this far ahead: they are scattered over 20 MB */
#define SLOTS_A_PAGE_BITS 10

/* A hash table with open addressing: slot -> its newest entry in this call. Number 0 is a free place. */
struct newest {
    int32_t slot;
    int32_t number;
};

static struct newest *newest_of(struct newest *table, size_t mask, int32_t slot) {
    size_t place = (size_t)((uint32_t)slot * 0x9E3779B9u >> 7) & mask;
    while (table[place].number != 0 && table[place].slot != slot) place = (place + 1) & mask;
    return &table[place];
}

static int32_t time_difference_s(int64_t timestamp_ms, int64_t begin_ms) {
    if (begin_ms <= 0 || timestamp_ms <= begin_ms) return 0;
    const int64_t difference = (timestamp_ms - begin_ms) / 1000;
    return difference < INT32_MAX ? (int32_t)difference : INT32_MAX;
}

int64_t link_keys(const uint8_t *slots, size_t slot_count, const struct new_keys *keys, uint8_t *entries,
                  uint8_t *in_slot) {
    size_t places = 16;
    while (places < 2 * keys->count) places *= 2;
    struct newest *table = calloc(places, sizeof *table);
    int32_t *wanted = malloc(keys->count * sizeof *wanted + 1);
    if (table == NULL || wanted == NULL) {
        free(table);
        free(wanted);
        return -1;
    }
    const int64_t modulus = (int64_t)slot_count;
    for (size_t i = 0; i < keys->count; i++) {
        const int32_t slot = (int32_t)(column32_once(keys->hashes, i) % modulus);
        wanted[i] = slot < 0 ? (int32_t)(slot + modulus) : slot;
    }
    int64_t empty = 0;
    for (size_t i = 0; i < keys->count; i++) {
        if (i + AHEAD < keys->count) __builtin_prefetch(slots + 4 * (size_t)wanted[i + AHEAD]);
        struct newest *newest = newest_of(table, places - 1, wanted[i]);
        const int32_t previous = newest->number != 0 ? newest->number : column32_once(slots, (size_t)wanted[i]);
        *newest = (struct newest){wanted[i], keys->first + (int32_t)i};
        empty += previous == 0;
        uint8_t *entry = entries + KEY_ENTRY_SIZE * i;
        store32(entry, column32_once(keys->hashes, i));
        store64(entry + 4, column64_once(keys->offsets, i));
        store32(entry + 12, time_difference_s(column64_once(keys->timestamps_ms, i), keys->begin_timestamp_ms));
        store32(entry + 16, previous);
    }
    memcpy(in_slot, wanted, keys->count * sizeof *wanted);
    free(table);
    free(wanted);
    return empty;
}

int set_heads(uint8_t *slots, size_t slot_count, uint8_t *stamps, size_t page_count, size_t slots_before,
              const uint8_t *in_slot, size_t count, int32_t first) {
    const size_t pages_end = page_count << SLOTS_A_PAGE_BITS;
    const size_t paged = pages_end > slots_before ? pages_end - slots_before : 0;
    const size_t end = slot_count < paged ? slot_count : paged;
    for (size_t i = 0; i < count; i++) {
        if ((uint32_t)column32_once(in_slot, i) >= end) return 0;
    }
    for (size_t i = 0; i < count; i++) {
        const uint32_t slot = (uint32_t)column32_once(in_slot, i);
        if (slot >= end) return 0; /* a slot was changed meanwhile */
        const size_t page = (slots_before + slot) >> SLOTS_A_PAGE_BITS;
        const int32_t head = first + (int32_t)i;
        memcpy(slots + 4 * (size_t)slot, &head, 4);
        memcpy(stamps + 4 * page, &head, 4);
    }
    return 1;
}
