/* What the fuzz targets share: the input taken piece by piece, exactly sized copies, and checks that end the process. */
#ifndef FLIGHTLOG_FUZZ_H
#define FLIGHTLOG_FUZZ_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "crc32.h"
#include "encode.h"
#include "record.h"
#include "walk.h"

/* What must hold. The fuzzer keeps the input for which it did not. */
#define CHECK(condition)                                                                    \
    do {                                                                                    \
        if (!(condition)) {                                                                 \
            fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #condition);  \
            abort();                                                                        \
        }                                                                                   \
    } while (0)

/* For loops over bytes: their branches tell the fuzzer nothing, and watching them takes more time than all the rest. */
#define UNWATCHED __attribute__((noinline, unused, no_sanitize("coverage")))

int LLVMFuzzerInitialize(int *count, char ***arguments);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Defined here, not in a file of its own: every target is one file. */
__attribute__((weak)) int LLVMFuzzerInitialize(int *count, char ***arguments) {
    (void)count, (void)arguments;
    crc32_prepare();
    return 0;
}

/* ---- the input, from its front; zeros once it is used up ---- */

struct source {
    const uint8_t *data;
    size_t size;
};

UNWATCHED static size_t take_into(struct source *source, uint8_t *to, size_t size) {
    const size_t taken = size < source->size ? size : source->size;
    if (taken > 0) memcpy(to, source->data, taken);
    if (size > taken) memset(to + taken, 0, size - taken);
    source->data += taken;
    source->size -= taken;
    return taken;
}

UNWATCHED static uint64_t take(struct source *source, size_t bytes) {
    uint8_t little_endian[8] = {0};
    take_into(source, little_endian, bytes);
    uint64_t value = 0;
    for (size_t i = 0; i < bytes; i++) value |= (uint64_t)little_endian[i] << 8 * i;
    return value;
}

/* ---- memory of exactly so many bytes, so that the first one beyond is seen; free() it ---- */

UNWATCHED static uint8_t *exactly(size_t size) {
    uint8_t *room = malloc(size);
    if (room == NULL) abort();
    return room;
}

UNWATCHED static struct bytes copy_of(const uint8_t *data, size_t size) {
    uint8_t *copy = exactly(size);
    if (size > 0) memcpy(copy, data, size);
    return (struct bytes){copy, size};
}

UNWATCHED static struct bytes take_bytes(struct source *source, size_t size) {
    uint8_t *copy = exactly(size);
    take_into(source, copy, size);
    return (struct bytes){copy, size};
}

static inline struct bytes take_rest(struct source *source) { return take_bytes(source, source->size); }

static inline void drop(struct bytes bytes) { free((void *)(uintptr_t)bytes.data); }

/* ---- the CRC by its definition, four bits at a time ---- */

UNWATCHED static uint32_t plain_masked_crc32(const uint8_t *data, size_t size) {
    static const uint32_t effects[16] = {
        0x00000000, 0x1DB71064, 0x3B6E20C8, 0x26D930AC, 0x76DC4190, 0x6B6B51F4, 0x4DB26158, 0x5005713C,
        0xEDB88320, 0xF00F9344, 0xD6D6A3E8, 0xCB61B38C, 0x9B64C2B0, 0x86D3D2D4, 0xA00AE278, 0xBDBDF21C,
    };
    uint32_t crc = ~0u;
    for (size_t i = 0; i < size; i++) {
        crc = crc >> 4 ^ effects[(crc ^ data[i]) & 15];
        crc = crc >> 4 ^ effects[(crc ^ data[i] >> 4) & 15];
    }
    return ~crc & 0x7FFFFFFFu;
}

#endif
