/* The CRC of a record's body: CRC-32 (IEEE, as zlib's) without its top bit, so that Java's int is never negative. */
#ifndef FLIGHTLOG_CRC32_H
#define FLIGHTLOG_CRC32_H

#include <stddef.h>
#include <stdint.h>

/* Fills the tables and chooses the way for this CPU. Call it before the first CRC; calling it again does no harm. */
void crc32_prepare(void);

/* 0 for no bytes. */
uint32_t masked_crc32(const uint8_t *data, size_t size);

/* Copies the bytes and returns the CRC of the copy; the two do not overlap. */
uint32_t masked_crc32_copy(uint8_t *to, const uint8_t *from, size_t size);

/*
 * The same by every way that this CPU offers, for tests: on a fast CPU the slow ways are hardly ever taken. Of each way
 * that copies there are two: its CRC, and that of the `size` bytes it has left at `copy`.
 */
#define CRC32_WAYS 9
int masked_crc32_all_ways(const uint8_t *data, size_t size, uint8_t *copy, uint32_t crcs[CRC32_WAYS]);

#endif
