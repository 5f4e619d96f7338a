/* CRC-32 by tables, eight bytes a step, and the choice between the tables and folding. */
#include "crc32.h"

#include "byteorder.h"

#if (defined(__x86_64__) || defined(__i386__)) && defined(__GNUC__)
#include "crc32_fold.h"
#define CAN_FOLD_ON_SOME_CPU 1
#else
#define CAN_FOLD_ON_SOME_CPU 0
#endif

#define POLYNOMIAL 0xEDB88320u /* IEEE 802.3, bits reflected */
#define MASK 0x7FFFFFFFu

/* tables[k][b]: the effect of byte b after k more bytes. */
static uint32_t tables[8][256];
#if CAN_FOLD_ON_SOME_CPU
static size_t fold_from = SIZE_MAX, fold_wide_from = SIZE_MAX; /* sizes; never, until the CPU is known */
#endif

void crc32_prepare(void) {
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t crc = byte;
        for (int bit = 0; bit < 8; bit++) crc = (crc >> 1) ^ (POLYNOMIAL & (0u - (crc & 1u)));
        tables[0][byte] = crc;
    }
    for (int k = 1; k < 8; k++) {
        for (int byte = 0; byte < 256; byte++) {
            uint32_t before = tables[k - 1][byte];
            tables[k][byte] = (before >> 8) ^ tables[0][before & 0xFF];
        }
    }
#if CAN_FOLD_ON_SOME_CPU
    __builtin_cpu_init();
    if (__builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1")) {
        fold_from = FOLD_MIN_SIZE;
        if (__builtin_cpu_supports("vpclmulqdq") && __builtin_cpu_supports("avx2")) fold_wide_from = WIDE_MIN_SIZE;
    }
#endif
}

static uint32_t by_table(uint32_t crc, const uint8_t *data, size_t size) {
    for (; size >= 8; data += 8, size -= 8) {
        uint64_t word;
        memcpy(&word, data, sizeof word);
        word = little64(word) ^ crc;
        crc = tables[7][word & 0xFF] ^ tables[6][(word >> 8) & 0xFF] ^ tables[5][(word >> 16) & 0xFF] ^
              tables[4][(word >> 24) & 0xFF] ^ tables[3][(word >> 32) & 0xFF] ^ tables[2][(word >> 40) & 0xFF] ^
              tables[1][(word >> 48) & 0xFF] ^ tables[0][word >> 56];
    }
    for (; size > 0; data++, size--) crc = (crc >> 8) ^ tables[0][(crc ^ *data) & 0xFF];
    return crc;
}

uint32_t masked_crc32(const uint8_t *data, size_t size) {
#if CAN_FOLD_ON_SOME_CPU
    if (size >= fold_wide_from) return ~crc32_fold_wide(~0u, data, size) & MASK;
    if (size >= fold_from) return ~crc32_fold(~0u, data, size) & MASK;
#endif
    return ~by_table(~0u, data, size) & MASK;
}

static uint32_t by_table_copy(uint8_t *to, const uint8_t *from, size_t size) {
    if (size > 0) memcpy(to, from, size); /* memcpy requires valid pointers even for no bytes */
    return by_table(~0u, to, size);
}

uint32_t masked_crc32_copy(uint8_t *to, const uint8_t *from, size_t size) {
#if CAN_FOLD_ON_SOME_CPU
    if (size >= fold_wide_from) return ~crc32_fold_wide_copy(~0u, from, size, to) & MASK;
    if (size >= fold_from) return ~crc32_fold_copy(~0u, from, size, to) & MASK;
#endif
    return ~by_table_copy(to, from, size) & MASK;
}

int masked_crc32_all_ways(const uint8_t *data, size_t size, uint8_t *copy, uint32_t crcs[CRC32_WAYS]) {
    int ways = 0;
    crcs[ways++] = ~by_table(~0u, data, size) & MASK;
    crcs[ways++] = ~by_table_copy(copy, data, size) & MASK;
    crcs[ways++] = ~by_table(~0u, copy, size) & MASK;
#if CAN_FOLD_ON_SOME_CPU
    if (size >= fold_from) {
        crcs[ways++] = ~crc32_fold(~0u, data, size) & MASK;
        memset(copy, 0, size);
        crcs[ways++] = ~crc32_fold_copy(~0u, data, size, copy) & MASK;
        crcs[ways++] = ~by_table(~0u, copy, size) & MASK;
    }
    if (size >= fold_wide_from) {
        crcs[ways++] = ~crc32_fold_wide(~0u, data, size) & MASK;
        memset(copy, 0, size);
        crcs[ways++] = ~crc32_fold_wide_copy(~0u, data, size, copy) & MASK;
        crcs[ways++] = ~by_table(~0u, copy, size) & MASK;
    }
#endif
    return ways;
}
