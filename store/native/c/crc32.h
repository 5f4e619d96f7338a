/* The CRC of a record's body: CRC-32 (IEEE, as in zlib) without its top bit, so that it is never negative in Java. */
#ifndef FLIGHTLOG_CRC32_H
#define FLIGHTLOG_CRC32_H

#include <stddef.h>
#include <stdint.h>

/* Fills the tables and chooses the method for this CPU. Must be called before the first CRC; idempotent. */
void crc32_prepare(void);

/* 0 for no bytes. */
uint32_t masked_crc32(const uint8_t *data, size_t size);

/* Copies the bytes and returns the CRC of the copy; the two do not overlap. */
uint32_t masked_crc32_copy(uint8_t *to, const uint8_t *from, size_t size);

/*
 * The CRC by every method that this CPU supports, for tests: a fast CPU hardly ever uses the slow ones. A method that
 * copies gives two results: its CRC, and that of the `size` bytes that it wrote to `copy`.
 */
#define CRC32_WAYS 9
int masked_crc32_all_ways(const uint8_t *data, size_t size, uint8_t *copy, uint32_t crcs[CRC32_WAYS]);

#endif
