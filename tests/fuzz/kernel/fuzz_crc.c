/*
 * masked_crc32, and masked_crc32_copy with the copy that it makes: every way that this CPU offers gives what the
 * definition gives, at any size and alignment.
 */
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct source source = {data, size};
    const size_t shift = take(&source, 1) % 64;
    const struct bytes bytes = take_rest(&source);
    /* Before the first byte lies what may be read by mistake without notice; so once at the front, once behind. */
    uint8_t *shifted = exactly(shift + bytes.size);
    memset(shifted, 0x5A, shift);
    memcpy(shifted + shift, bytes.data, bytes.size);

    const uint32_t expected = plain_masked_crc32(bytes.data, bytes.size);
    const uint8_t *const places[] = {bytes.data, shifted + shift};
    for (size_t place = 0; place < 2; place++) {
        CHECK(masked_crc32(places[place], bytes.size) == expected);
        uint8_t *copy = exactly(bytes.size);
        CHECK(masked_crc32_copy(copy, places[place], bytes.size) == expected);
        CHECK(bytes.size == 0 || memcmp(copy, bytes.data, bytes.size) == 0);
        uint32_t crcs[CRC32_WAYS];
        const int ways = masked_crc32_all_ways(places[place], bytes.size, copy, crcs);
        free(copy);
        CHECK(ways >= 1 && ways <= CRC32_WAYS);
        for (int way = 0; way < ways; way++) CHECK(crcs[way] == expected);
    }
    free(shifted);
    drop(bytes);
    return 0;
}
