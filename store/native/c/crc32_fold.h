/*
 * CRC-32 by carry-less multiplication, for x86. Included by crc32.c alone, which asks the CPU first. The bytes can be
 * copied on the way: each is loaded once, so the CRC is that of the copy whatever becomes of the original meanwhile.
 *
 * Sixteen bytes of message are a polynomial of degree 127 over GF(2). Moving it D bits forward in the message means
 * multiplying it by x^D, and modulo the CRC's polynomial P that is a short constant: so sixteen bytes can be *folded*
 * onto sixteen bytes that come D bits later with two 64-bit products and two exclusive-ors. Several accumulators side
 * by side keep the multiplier busy; what remains is folded together, and a Barrett reduction takes the last 64 bits
 * modulo P.
 *
 * All bits are reflected, as the CRC's are: bit 0 of a register is the highest power. A product of two reflected words
 * comes out one power too high, and a 33-bit constant in the low bits of a word stands for x^31 times itself; both
 * together are x^32, which is why the constants are
 *
 *     x^(D+32) mod P for the earlier eight bytes of a block and x^(D-32) mod P for the later eight,
 *
 * reflected and shifted by one bit.
 */
#ifndef FLIGHTLOG_CRC32_FOLD_H
#define FLIGHTLOG_CRC32_FOLD_H

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>

#define FOLD_MIN_SIZE 16  /* one block */
#define WIDE_MIN_SIZE 256 /* two rounds: less does not pay */

#define FOLDING __attribute__((target("pclmul,sse4.1")))
#define WIDE __attribute__((target("vpclmulqdq,avx2,pclmul,sse4.1")))
#define X_1056 0x1E88EF372LL      /* x^(1024+32) mod P */
#define X_992 0x14A7FE880LL       /* x^(1024-32) mod P */
#define X_544 0x154442BD4LL       /* x^(512+32) mod P */
#define X_480 0x1C6E41596LL       /* x^(512-32) mod P */
#define X_160 0x1751997D0LL       /* x^(128+32) mod P */
#define X_96 0x0CCAA009ELL        /* x^(128-32) mod P */
#define X_64 0x163CD6124LL        /* x^64 mod P */
#define P 0x1DB710641LL           /* the polynomial, all 33 bits */
#define X_64_OVER_P 0x1F7011641LL /* x^64 divided by P */

FOLDING static inline __m128i load(const uint8_t *at) { return _mm_loadu_si128((const __m128i *)at); }

FOLDING static inline __m128i fold(__m128i earlier, __m128i constants, __m128i later) {
    __m128i low = _mm_clmulepi64_si128(earlier, constants, 0x00);
    __m128i high = _mm_clmulepi64_si128(earlier, constants, 0x11);
    return _mm_xor_si128(later, _mm_xor_si128(low, high));
}

/* Sixteen indices read from n on move the first n bytes of a register to its end, from 16 + n on the others to its
 * front; 0x80 yields a zero byte. */
static const uint8_t shift_row[48] = {
    0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80,
    0,    1,    2,    3,    4,    5,    6,    7,    8,    9,    10,   11,   12,   13,   14,   15,
    0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80,
};

/* Copies sixteen bytes, if there is a copy to make, and moves on behind them in both. */
FOLDING static inline __m128i take(const uint8_t **data, uint8_t **to) {
    const __m128i block = load(*data);
    *data += 16;
    if (*to != NULL) {
        _mm_storeu_si128((__m128i *)*to, block);
        *to += 16;
    }
    return block;
}

/*
 * The last 1 to 15 bytes: accumulator and rest together are 16 + rest bytes. Their first `rest` bytes, moved to the end
 * of a block of their own, are folded onto the block of the other sixteen. `end - 16` lies inside the message, which
 * has at least sixteen bytes; so does `to - 16` inside its copy, where the block before the rest stands.
 */
FOLDING static inline __m128i fold_rest(__m128i sum, __m128i constants, const uint8_t *end, uint8_t *to, size_t rest) {
    __m128i to_end = load(shift_row + rest), to_front = load(shift_row + 16 + rest);
    __m128i first = _mm_shuffle_epi8(sum, to_end);
    __m128i others = _mm_shuffle_epi8(sum, to_front);
    __m128i taken = _mm_cmplt_epi8(to_end, _mm_setzero_si128()); /* the places of `others` */
    __m128i tail = _mm_andnot_si128(taken, load(end - 16));
    if (to != NULL) {
        __m128i before = _mm_shuffle_epi8(load(to - 16), to_front);
        _mm_storeu_si128((__m128i *)(to + rest - 16), _mm_or_si128(before, tail));
    }
    return fold(first, constants, _mm_or_si128(others, tail));
}

FOLDING static inline uint32_t reduce(__m128i sum) {
    const __m128i low_32 = _mm_set_epi32(0, 0, 0, -1);
    /* 128 bits to 96: the earlier eight bytes onto the later eight and the 32 zero bits that a CRC appends */
    sum = _mm_xor_si128(_mm_clmulepi64_si128(sum, _mm_set_epi64x(0, X_96), 0x00), _mm_srli_si128(sum, 8));
    /* 96 bits to 64 */
    __m128i top = _mm_clmulepi64_si128(_mm_and_si128(sum, low_32), _mm_set_epi64x(0, X_64), 0x00);
    sum = _mm_xor_si128(top, _mm_srli_si128(sum, 4));
    /* Barrett: the quotient by multiplying with x^64 / P, then the remainder */
    const __m128i barrett = _mm_set_epi64x(X_64_OVER_P, P);
    __m128i quotient = _mm_clmulepi64_si128(_mm_and_si128(sum, low_32), barrett, 0x10);
    __m128i multiple = _mm_clmulepi64_si128(_mm_and_si128(quotient, low_32), barrett, 0x00);
    return (uint32_t)_mm_extract_epi32(_mm_xor_si128(sum, multiple), 1);
}

/* The CRC register after `data` up to `end`, whose first bytes are already folded into `sum`. */
FOLDING static inline uint32_t finish(__m128i sum, const uint8_t *data, const uint8_t *end, uint8_t *to) {
    const __m128i by_128 = _mm_set_epi64x(X_96, X_160);
    while (end - data >= 16) sum = fold(sum, by_128, take(&data, &to));
    if (end > data) sum = fold_rest(sum, by_128, end, to, (size_t)(end - data));
    return reduce(sum);
}

/* The CRC register after `size` >= FOLD_MIN_SIZE bytes, from the register before them; copied to `to` unless NULL. */
FOLDING static inline uint32_t fold_all(uint32_t crc, const uint8_t *data, size_t size, uint8_t *to) {
    const uint8_t *end = data + size;
    __m128i sum = _mm_xor_si128(take(&data, &to), _mm_cvtsi32_si128((int)crc));
    if (end - data >= 48) {
        const __m128i by_512 = _mm_set_epi64x(X_480, X_544), by_128 = _mm_set_epi64x(X_96, X_160);
        __m128i second = take(&data, &to), third = take(&data, &to), fourth = take(&data, &to);
        while (end - data >= 64) {
            sum = fold(sum, by_512, take(&data, &to));
            second = fold(second, by_512, take(&data, &to));
            third = fold(third, by_512, take(&data, &to));
            fourth = fold(fourth, by_512, take(&data, &to));
        }
        sum = fold(fold(fold(sum, by_128, second), by_128, third), by_128, fourth);
    }
    return finish(sum, data, end, to);
}

FOLDING static uint32_t crc32_fold(uint32_t crc, const uint8_t *data, size_t size) {
    return fold_all(crc, data, size, NULL);
}

FOLDING static uint32_t crc32_fold_copy(uint32_t crc, const uint8_t *data, size_t size, uint8_t *to) {
    return fold_all(crc, data, size, to);
}

/* ---- two blocks in a register, where the CPU multiplies them at once ---- */

WIDE static inline __m256i take_wide(const uint8_t **data, uint8_t **to) {
    const __m256i blocks = _mm256_loadu_si256((const __m256i *)*data);
    *data += 32;
    if (*to != NULL) {
        _mm256_storeu_si256((__m256i *)*to, blocks);
        *to += 32;
    }
    return blocks;
}

WIDE static inline __m256i fold_wide(__m256i earlier, __m256i constants, __m256i later) {
    __m256i low = _mm256_clmulepi64_epi128(earlier, constants, 0x00);
    __m256i high = _mm256_clmulepi64_epi128(earlier, constants, 0x11);
    return _mm256_xor_si256(later, _mm256_xor_si256(low, high));
}

WIDE static inline __m128i fold_pair(__m128i sum, __m256i pair) {
    const __m128i by_128 = _mm_set_epi64x(X_96, X_160);
    sum = fold(sum, by_128, _mm256_castsi256_si128(pair));
    return fold(sum, by_128, _mm256_extracti128_si256(pair, 1));
}

/* The same for `size` >= WIDE_MIN_SIZE bytes. Needs VPCLMULQDQ and AVX2 too. */
WIDE static inline uint32_t fold_all_wide(uint32_t crc, const uint8_t *data, size_t size, uint8_t *to) {
    const __m256i by_1024 = _mm256_set_epi64x(X_992, X_1056, X_992, X_1056);
    const uint8_t *end = data + size;
    __m256i first = _mm256_xor_si256(take_wide(&data, &to), _mm256_set_epi32(0, 0, 0, 0, 0, 0, 0, (int)crc));
    __m256i second = take_wide(&data, &to), third = take_wide(&data, &to), fourth = take_wide(&data, &to);
    while (end - data >= 128) {
        first = fold_wide(first, by_1024, take_wide(&data, &to));
        second = fold_wide(second, by_1024, take_wide(&data, &to));
        third = fold_wide(third, by_1024, take_wide(&data, &to));
        fourth = fold_wide(fourth, by_1024, take_wide(&data, &to));
    }
    __m128i sum = _mm256_castsi256_si128(first);
    sum = fold(sum, _mm_set_epi64x(X_96, X_160), _mm256_extracti128_si256(first, 1));
    sum = fold_pair(fold_pair(fold_pair(sum, second), third), fourth);
    return finish(sum, data, end, to);
}

WIDE static uint32_t crc32_fold_wide(uint32_t crc, const uint8_t *data, size_t size) {
    return fold_all_wide(crc, data, size, NULL);
}

WIDE static uint32_t crc32_fold_wide_copy(uint32_t crc, const uint8_t *data, size_t size, uint8_t *to) {
    return fold_all_wide(crc, data, size, to);
}

#endif
