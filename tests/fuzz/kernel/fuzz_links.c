/* link_keys and set_heads over any columns: what they write is what one key after the other would have written. */
#include "fuzz.h"

#include "byteorder.h"
#include "key_links.h"

#define KEYS_MAX 64
#define SLOTS_MAX 3000
#define SLOTS_BEFORE 10

static int64_t seconds_after(int64_t time_ms, int64_t begin_ms) {
    if (begin_ms <= 0 || time_ms <= begin_ms) return 0;
    const int64_t seconds = (time_ms - begin_ms) / 1000;
    return seconds < INT32_MAX ? seconds : INT32_MAX;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct source source = {data, size};
    struct new_keys keys;
    keys.count = take(&source, 1) % (KEYS_MAX + 1);
    const size_t slot_count = 1 + take(&source, 2) % SLOTS_MAX, pages = take(&source, 1) % 5;
    keys.first = 1 + (int32_t)(take(&source, 4) % (uint64_t)(INT32_MAX - KEYS_MAX));
    keys.begin_timestamp_ms = (int64_t)take(&source, 8);
    const struct bytes hashes = take_bytes(&source, 4 * keys.count), times = take_bytes(&source, 8 * keys.count);
    const struct bytes offsets = take_bytes(&source, 8 * keys.count), slots = take_bytes(&source, 4 * slot_count);
    const struct bytes expected = copy_of(slots.data, slots.size), before = copy_of(slots.data, slots.size);
    keys.hashes = hashes.data, keys.offsets = offsets.data, keys.timestamps_ms = times.data;
    uint8_t *entries = exactly(KEY_ENTRY_SIZE * keys.count), *in_slot = exactly(4 * keys.count);
    uint8_t *stamps = exactly(4 * pages), *heads = (uint8_t *)(uintptr_t)expected.data;
    memset(stamps, 0, 4 * pages);

    int64_t empty = link_keys(slots.data, slot_count, &keys, entries, in_slot);
    CHECK(memcmp(slots.data, before.data, slots.size) == 0);
    int have_pages = 1;
    for (size_t i = 0; i < keys.count; i++) {
        const int64_t hash = column32_once(keys.hashes, i), count = (int64_t)slot_count;
        const size_t slot = (size_t)((hash % count + count) % count);
        const int32_t head = keys.first + (int32_t)i, previous = column32_once(heads, slot);
        const uint8_t *entry = entries + KEY_ENTRY_SIZE * i;
        CHECK((size_t)column32_once(in_slot, i) == slot);
        CHECK(load32_once(entry) == hash && load64_once(entry + 4) == column64_once(keys.offsets, i));
        CHECK(load32_once(entry + 12) == seconds_after(column64_once(keys.timestamps_ms, i), keys.begin_timestamp_ms));
        CHECK(load32_once(entry + 16) == previous);
        empty -= previous == 0;
        memcpy(heads + 4 * slot, &head, 4);
        have_pages &= (slot + SLOTS_BEFORE) / 1024 < pages;
    }
    CHECK(empty == 0);

    /* stamped exactly with the newest of each page; or nothing at all */
    uint8_t *const targets = (uint8_t *)(uintptr_t)slots.data;
    CHECK(set_heads(targets, slot_count, stamps, pages, SLOTS_BEFORE, in_slot, keys.count, keys.first) == have_pages);
    CHECK(memcmp(slots.data, have_pages ? expected.data : before.data, slots.size) == 0);
    for (size_t page = 0; page < pages; page++) {
        int32_t newest = 0;
        for (size_t i = 0; have_pages && i < keys.count; i++) {
            const size_t slot = (size_t)column32_once(in_slot, i);
            if ((slot + SLOTS_BEFORE) / 1024 == page) newest = keys.first + (int32_t)i;
        }
        CHECK(column32_once(stamps, page) == newest);
    }
    free(entries), free(in_slot), free(stamps);
    drop(hashes), drop(times), drop(offsets), drop(slots), drop(expected), drop(before);
    return 0;
}
