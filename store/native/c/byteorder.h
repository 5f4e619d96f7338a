/*
 * Loads and stores at any alignment: big-endian integers of the log, little-endian ones of rows, and columns in host
 * byte order.
 */
#ifndef FLIGHTLOG_BYTEORDER_H
#define FLIGHTLOG_BYTEORDER_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
#define FLIGHTLOG_BIG_ENDIAN_HOST 1
#else
#define FLIGHTLOG_BIG_ENDIAN_HOST 0
#endif

static inline uint16_t big16(uint16_t value) { return FLIGHTLOG_BIG_ENDIAN_HOST ? value : __builtin_bswap16(value); }
static inline uint32_t big32(uint32_t value) { return FLIGHTLOG_BIG_ENDIAN_HOST ? value : __builtin_bswap32(value); }
static inline uint64_t big64(uint64_t value) { return FLIGHTLOG_BIG_ENDIAN_HOST ? value : __builtin_bswap64(value); }
static inline uint32_t little32(uint32_t value) { return FLIGHTLOG_BIG_ENDIAN_HOST ? __builtin_bswap32(value) : value; }
static inline uint64_t little64(uint64_t value) { return FLIGHTLOG_BIG_ENDIAN_HOST ? __builtin_bswap64(value) : value; }

/*
 * The bytes may belong to a mapped file that another process is writing. A value that is checked and then used must be
 * loaded exactly once: if the compiler loaded it again, the second load could return an unchecked length. Hence
 * volatile; packed, because fields are unaligned; may_alias, because the bytes are not objects of these types.
 */
struct shared16 { uint16_t value; } __attribute__((packed, may_alias));
struct shared32 { uint32_t value; } __attribute__((packed, may_alias));
struct shared64 { uint64_t value; } __attribute__((packed, may_alias));

static inline uint8_t load8_once(const uint8_t *at) { return *(const volatile uint8_t *)at; }
static inline int16_t load16_once(const uint8_t *at) {
    return (int16_t)big16(((const volatile struct shared16 *)at)->value);
}
static inline int32_t load32_once(const uint8_t *at) {
    return (int32_t)big32(((const volatile struct shared32 *)at)->value);
}
static inline int64_t load64_once(const uint8_t *at) {
    return (int64_t)big64(((const volatile struct shared64 *)at)->value);
}

/* Number i of a column, in host byte order. */
static inline int32_t column32_once(const uint8_t *column, size_t i) {
    return (int32_t)((const volatile struct shared32 *)(column + 4 * i))->value;
}
static inline int64_t column64_once(const uint8_t *column, size_t i) {
    return (int64_t)((const volatile struct shared64 *)(column + 8 * i))->value;
}

static inline void store16(uint8_t *at, int16_t value) {
    uint16_t bits = big16((uint16_t)value);
    memcpy(at, &bits, sizeof bits);
}
static inline void store32(uint8_t *at, int32_t value) {
    uint32_t bits = big32((uint32_t)value);
    memcpy(at, &bits, sizeof bits);
}
static inline void store64(uint8_t *at, int64_t value) {
    uint64_t bits = big64((uint64_t)value);
    memcpy(at, &bits, sizeof bits);
}

/* A release store of eight bytes: it becomes visible after everything stored before it. */
static inline void publish64(uint8_t *at, uint64_t value) {
    __atomic_thread_fence(__ATOMIC_RELEASE);
    ((volatile struct shared64 *)at)->value = big64(value);
}

#endif
