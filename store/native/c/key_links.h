/* Keys put into the slots and entries of a key index file: index/key/index_file.py has the format. */
#ifndef FLIGHTLOG_KEY_LINKS_H
#define FLIGHTLOG_KEY_LINKS_H

#include <stddef.h>
#include <stdint.h>

#define KEY_ENTRY_SIZE 20 /* key hash i32, physical offset i64, time difference i32, previous entry i32, big-endian */

/* Columns of this host's byte order, at any alignment. */
struct new_keys {
    const uint8_t *hashes;        /* int32 */
    const uint8_t *offsets;       /* int64 */
    const uint8_t *timestamps_ms; /* int64 */
    size_t count;
    int32_t first; /* number of the first entry */
    int64_t begin_timestamp_ms;
};

/*
 * Writes an entry for each key, and the slot of each (int32 of this host) into `in_slot`. `slots`, int32 of this host, is
 * only read: an entry that follows another of this call in its slot points at that one. How many slots were empty, or -1
 * where there is no memory.
 */
int64_t link_keys(const uint8_t *slots, size_t slot_count, const struct new_keys *keys, uint8_t *entries,
                  uint8_t *in_slot);

/*
 * Makes entries first, first + 1 ... the heads of these slots, and notes them as the newest of their pages, of 1 << 10
 * slots each, the first of which begins `slots_before` slots before slot 0. 0 if a slot or its page is none: nothing is
 * set then.
 */
int set_heads(uint8_t *slots, size_t slot_count, uint8_t *stamps, size_t page_count, size_t slots_before,
              const uint8_t *in_slot, size_t count, int32_t first);

#endif
