/*
 * ranges_size and gather_ranges: the sum and the copy that a plain loop makes, over any columns; and with room of any
 * other size, as after the columns were changed, nothing is written beyond it.
 */
#include "fuzz.h"

#define RANGES_MAX 32

/* The sum of the sizes, or -1 for a range outside of the data. So few ranges of so small an input never overflow. */
static int64_t expected_size(const struct ranges *ranges, size_t count) {
    int64_t sum = 0;
    for (size_t i = 0; i < count; i++) {
        int64_t start, size;
        memcpy(&start, ranges->starts + 8 * i, 8);
        memcpy(&size, ranges->sizes + 8 * i, 8);
        if (start < 0 || size < 0) return -1;
        const unsigned __int128 end = (unsigned __int128)start + (unsigned __int128)size;
        if (end > ranges->data.size) return -1;
        struct bytes found;
        CHECK(range_at(ranges, i, &found) && found.size == (size_t)size);
        CHECK(size == 0 || found.data == ranges->data.data + start);
        sum += size;
    }
    return sum;
}

UNWATCHED static void check_gathered(const struct ranges *ranges, size_t count, const uint8_t *out) {
    for (size_t i = 0; i < count; i++) {
        int64_t start, size;
        memcpy(&start, ranges->starts + 8 * i, 8);
        memcpy(&size, ranges->sizes + 8 * i, 8);
        CHECK(size == 0 || memcmp(out, ranges->data.data + start, (size_t)size) == 0);
        out += size;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct source source = {data, size};
    const size_t count = take(&source, 1) % (RANGES_MAX + 1);
    const size_t other_size = take(&source, 2);
    const struct bytes starts = take_bytes(&source, 8 * count), sizes = take_bytes(&source, 8 * count);
    const struct bytes bytes = take_rest(&source);
    const struct ranges ranges = {bytes, starts.data, sizes.data};

    const int64_t whole = ranges_size(&ranges, count);
    CHECK(whole == expected_size(&ranges, count));
    if (whole >= 0) {
        uint8_t *out = exactly((size_t)whole);
        CHECK(gather_ranges(&ranges, count, out, (size_t)whole));
        check_gathered(&ranges, count, out);
        free(out);
    }
    uint8_t *out = exactly(other_size);
    CHECK(gather_ranges(&ranges, count, out, other_size) == (whole == (int64_t)other_size));
    free(out);

    /* A buffer without an address, as an empty one may come. */
    const struct ranges of_nothing = {{NULL, 0}, starts.data, sizes.data};
    if (ranges_size(&of_nothing, count) == 0) CHECK(gather_ranges(&of_nothing, count, NULL, 0));
    drop(starts);
    drop(sizes);
    drop(bytes);
    return 0;
}
