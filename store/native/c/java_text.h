/* Java's String.hashCode of UTF-8 texts: h = 31 * h + unit over the UTF-16 units, modulo 2^32. */
#ifndef FLIGHTLOG_JAVA_TEXT_H
#define FLIGHTLOG_JAVA_TEXT_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define REPLACEMENT 0xFFFDu

/* of 31, modulo 2^32 */
#define POWER_2 (31u * 31u)
#define POWER_3 (31u * POWER_2)
#define POWER_4 (31u * POWER_3)
#define POWER_5 (31u * POWER_4)
#define POWER_6 (31u * POWER_5)
#define POWER_7 (31u * POWER_6)
#define POWER_8 (31u * POWER_7)

/* One code point, or U+FFFD for the longest invalid prefix, as Python decodes with "replace". */
static inline uint32_t next_code_point(const uint8_t **at, const uint8_t *stop) {
    const uint8_t lead = *(const volatile uint8_t *)(*at)++;
    uint8_t low = 0x80, high = 0xBF;
    int more;
    if (lead < 0x80) return lead;
    if (lead >= 0xC2 && lead <= 0xDF) more = 1;
    else if (lead >= 0xE0 && lead <= 0xEF) more = 2;
    else if (lead >= 0xF0 && lead <= 0xF4) more = 3;
    else return REPLACEMENT;
    /* no overlong forms, no surrogates, nothing beyond U+10FFFF */
    if (lead == 0xE0) low = 0xA0;
    if (lead == 0xED) high = 0x9F;
    if (lead == 0xF0) low = 0x90;
    if (lead == 0xF4) high = 0x8F;
    uint32_t point = lead & (0x3Fu >> more);
    for (; more > 0; more--, (*at)++) {
        if (*at == stop) return REPLACEMENT;
        const uint8_t next = *(const volatile uint8_t *)*at;
        if (next < low || next > high) return REPLACEMENT;
        point = point << 6 | (next & 0x3Fu);
        low = 0x80, high = 0xBF;
    }
    return point;
}

/* The hash of a text appended to one with the hash `hash`. */
static inline uint32_t java_hash_from(uint32_t hash, const uint8_t *text, size_t size) {
    const uint8_t *at = text, *const stop = text + size;
    while (at < stop) {
        uint8_t unit[8];
        uint64_t units;
        if (stop - at >= 8 && (memcpy(&units, at, 8), (units & 0x8080808080808080u) == 0)) {
            memcpy(unit, &units, 8);
            hash = hash * POWER_8 + unit[0] * POWER_7 + unit[1] * POWER_6 + unit[2] * POWER_5 + unit[3] * POWER_4 +
                   unit[4] * POWER_3 + unit[5] * POWER_2 + unit[6] * 31u + unit[7];
            at += 8;
            continue;
        }
        const uint32_t point = next_code_point(&at, stop);
        if (point >= 0x10000) {
            hash = hash * 31 + (0xD7C0 + (point >> 10));
            hash = hash * 31 + (0xDC00 + (point & 0x3FF));
        } else {
            hash = hash * 31 + point;
        }
    }
    return hash;
}

#endif
