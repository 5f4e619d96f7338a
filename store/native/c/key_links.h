/* Writes keys into the slots and entries of a key index file; index/key/index_file.py has the format. */
#ifndef FLIGHTLOG_KEY_LINKS_H
#define FLIGHTLOG_KEY_LINKS_H

#include <stddef.h>
#include <stdint.h>

#define KEY_ENTRY_SIZE 20 /* key hash i32, physical offset i64, time difference i32, previous entry i32, big-endian */

/* Columns in host byte order, unaligned. */
struct new_keys {
    const uint8_t *hashes;        /* int32 */
    const uint8_t *offsets;       /* int64 */
    const uint8_t *timestamps_ms; /* int64 */
    size_t count;
    int32_t first; /* number of the first entry */
    int64_t begin_timestamp_ms;
};

/*
 * Writes an entry for each key, and its slot into `in_slot` (int32 in host byte order). `slots`, likewise, is only
 * read: an entry refers to the previous one in its slot, which may be of this call. Returns how many slots were empty,
 * or -1 without memory.
 */
int64_t link_keys(const uint8_t *slots, size_t slot_count, const struct new_keys *keys, uint8_t *entries,
                  uint8_t *in_slot);

/*
 * Makes the entries first, first + 1 ... the heads of these slots, and stamps their pages with them. A page has 1 << 10
 * slots; the first one begins `slots_before` slots before slot 0. 0, and nothing is set, if a slot or page is invalid.
 */
int set_heads(uint8_t *slots, size_t slot_count, uint8_t *stamps, size_t page_count, size_t slots_before,
              const uint8_t *in_slot, size_t count, int32_t first);

#endif
