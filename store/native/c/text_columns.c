/* Property texts. Every number of a column is bounds checked where it is used, because it may change meanwhile. */
#include "text_columns.h"

#include <string.h>

#include "byteorder.h"

#define COUNTED_SIZE 4096 /* bytes checked at a time, while they are in the cache */

static int value_at(const struct property_column *column, size_t row, struct bytes *value) {
    return range_at(&column->values, column->is_constant ? 0 : row, value);
}

int64_t texts_size(const struct property_column *columns, size_t column_count, size_t rows) {
    int64_t size = 0;
    for (size_t i = 0; i < column_count; i++) {
        const int64_t head_size = (int64_t)columns[i].head.size;
        for (size_t row = 0; row < rows; row++) {
            struct bytes value;
            if (!value_at(&columns[i], row, &value)) return -1;
            if (value.size > 0 && (__builtin_add_overflow(size, head_size + 1, &size) ||
                                   __builtin_add_overflow(size, (int64_t)value.size, &size))) {
                return -1;
            }
        }
    }
    return size;
}

/* Copies a few bytes, as most names and values have: a call would take longer than the copy. */
static inline uint8_t *append_short(uint8_t *at, struct bytes bytes) {
    const uint8_t *from = bytes.data;
    const size_t size = bytes.size;
    if (size > 32) {
        memcpy(at, from, size);
    } else if (size >= 16) {
        uint64_t words[4];
        memcpy(words, from, 16);
        memcpy(words + 2, from + size - 16, 16);
        memcpy(at, words, 16);
        memcpy(at + size - 16, words + 2, 16);
    } else if (size >= 8) {
        uint64_t first, last;
        memcpy(&first, from, 8);
        memcpy(&last, from + size - 8, 8);
        memcpy(at, &first, 8);
        memcpy(at + size - 8, &last, 8);
    } else if (size >= 4) {
        uint32_t first, last;
        memcpy(&first, from, 4);
        memcpy(&last, from + size - 4, 4);
        memcpy(at, &first, 4);
        memcpy(at + size - 4, &last, 4);
    } else {
        for (size_t i = 0; i < size; i++) at[i] = from[i];
    }
    return at + size;
}

/* The bytes that a check counts. */
struct found {
    uint64_t name_ends, value_ends;
    uint8_t bits; /* of all bytes */
    uint8_t has_zero;
};

static void look_through(const uint8_t *at, size_t size, struct found *found) {
    while (size > 0) {
        /* So few that a byte can hold the count, which lets the compiler vectorize. */
        const size_t some = size < 128 ? size : 128;
        uint8_t name_ends = 0, value_ends = 0, bits = 0, zeros = 0;
        for (size_t i = 0; i < some; i++) {
            name_ends = (uint8_t)(name_ends + (at[i] == NAME_END));
            value_ends = (uint8_t)(value_ends + (at[i] == VALUE_END));
            bits |= at[i];
            zeros |= at[i] == 0;
        }
        found->name_ends += name_ends;
        found->value_ends += value_ends;
        found->bits |= bits;
        found->has_zero |= zeros;
        at += some;
        size -= some;
    }
}

int write_texts(const struct property_column *columns, size_t column_count, size_t rows, uint8_t *out, int64_t size,
                uint8_t *text_sizes) {
    uint8_t *at = out, *const stop = out + size, *looked = out;
    uint64_t pairs = 0;
    struct found found = {0, 0, 0, 0};
    for (size_t row = 0; row < rows; row++) {
        const uint8_t *const text = at;
        for (size_t i = 0; i < column_count; i++) {
            struct bytes value;
            if (!value_at(&columns[i], row, &value)) return 0;
            if (value.size == 0) continue;
            const size_t room = (size_t)(stop - at), head_size = columns[i].head.size;
            if (value.size >= room || head_size >= room - value.size) return 0;
            at = append_short(at, columns[i].head);
            at = append_short(at, value);
            *at++ = VALUE_END;
            pairs++;
        }
        const int64_t text_size = at - text;
        memcpy(text_sizes + 8 * row, &text_size, 8);
        if (at - looked >= COUNTED_SIZE) {
            look_through(looked, (size_t)(at - looked), &found);
            looked = at;
        }
    }
    if (at != stop) return 0;
    look_through(looked, (size_t)(at - looked), &found);
    const int is_plain = found.bits < 0x80 && !found.has_zero;
    return found.name_ends == pairs && found.value_ends == pairs && is_plain ? 2 : 1;
}
