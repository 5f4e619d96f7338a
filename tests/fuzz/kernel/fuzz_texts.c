/*
 * texts_size and write_texts: what a plain loop makes of the columns, and into room of any other size nothing is written
 * beyond it. number_rows: each row's offset is what a plain count gives.
 */
#include "text_columns.h"

#include "fuzz.h"

#define COLUMNS_MAX 4
#define ROWS_MAX 12

UNWATCHED static int64_t number_of(const uint8_t *column, size_t i) {
    int64_t number;
    memcpy(&number, column + 8 * i, 8);
    return number;
}

/* The value, or 0 if it lies outside of the data. */
static int plain_value(const struct property_column *column, size_t row, struct bytes *value) {
    const size_t i = column->is_constant ? 0 : row;
    const int64_t start = number_of(column->values.starts, i), size = number_of(column->values.sizes, i);
    if (start < 0 || size < 0) return 0;
    if ((unsigned __int128)start + (unsigned __int128)size > column->values.data.size) return 0;
    *value = (struct bytes){column->values.data.data + start, (size_t)size};
    return 1;
}

/* All texts into `out`, their sizes into `sizes`; returns how many bytes, or -1 for a value outside of its data. */
UNWATCHED static int64_t plain_texts(const struct property_column *columns, size_t count, size_t rows, uint8_t *out,
                                     int64_t *sizes, int *is_plain) {
    int64_t done = 0;
    *is_plain = 1;
    for (size_t row = 0; row < rows; row++) {
        sizes[row] = 0;
        for (size_t i = 0; i < count; i++) {
            struct bytes value;
            if (!plain_value(&columns[i], row, &value)) return -1;
            if (value.size == 0) continue;
            const struct bytes head = columns[i].head;
            memcpy(out + done, head.data, head.size);
            memcpy(out + done + head.size, value.data, value.size);
            out[done + (int64_t)(head.size + value.size)] = VALUE_END;
            sizes[row] += (int64_t)(head.size + value.size) + 1;
            done += (int64_t)(head.size + value.size) + 1;
        }
    }
    size_t pairs = 0, name_ends = 0, value_ends = 0;
    for (size_t row = 0; row < rows; row++) {
        for (size_t i = 0; i < count; i++) {
            struct bytes value;
            if (plain_value(&columns[i], row, &value) && value.size > 0) pairs++;
        }
    }
    for (int64_t i = 0; i < done; i++) {
        name_ends += out[i] == NAME_END;
        value_ends += out[i] == VALUE_END;
        if (out[i] >= 0x80 || out[i] == 0) *is_plain = 0;
    }
    if (name_ends != pairs || value_ends != pairs) *is_plain = 0;
    return done;
}

static void check_texts(struct source *source) {
    struct property_column columns[COLUMNS_MAX];
    struct bytes parts[COLUMNS_MAX][3];
    const size_t count = take(source, 1) % (COLUMNS_MAX + 1), rows = take(source, 1) % (ROWS_MAX + 1);
    const size_t other_size = take(source, 2);
    for (size_t i = 0; i < count; i++) {
        const uint64_t kind = take(source, 1);
        columns[i].is_constant = (int)(kind & 1);
        parts[i][0] = take_bytes(source, kind >> 4);
        for (int part = 1; part < 3; part++) {
            const size_t items = columns[i].is_constant ? 1 : rows;
            uint8_t *column = exactly(8 * items);
            for (size_t row = 0; row < items; row++) {
                const uint64_t small = take(source, 1), number = small == 0xFF ? take(source, 8) : small;
                memcpy(column + 8 * row, &number, 8);
            }
            parts[i][part] = (struct bytes){column, 8 * items};
        }
    }
    const struct bytes data = take_rest(source);
    for (size_t i = 0; i < count; i++) {
        columns[i].head = parts[i][0];
        columns[i].values = (struct ranges){data, parts[i][1].data, parts[i][2].data};
    }
    int64_t sizes[ROWS_MAX];
    uint8_t *expected = exactly(COLUMNS_MAX * ROWS_MAX * (data.size + 17));
    int is_plain;
    const int64_t whole = plain_texts(columns, count, rows, expected, sizes, &is_plain);
    CHECK(texts_size(columns, count, rows) == whole);
    if (whole >= 0) {
        uint8_t *out = exactly((size_t)whole), *text_sizes = exactly(8 * rows), *other = exactly(other_size);
        CHECK(write_texts(columns, count, rows, out, whole, text_sizes) == (is_plain ? 2 : 1));
        CHECK(whole == 0 || memcmp(out, expected, (size_t)whole) == 0);
        CHECK(rows == 0 || memcmp(text_sizes, sizes, 8 * rows) == 0);
        const int fits = write_texts(columns, count, rows, other, (int64_t)other_size, text_sizes);
        CHECK((fits != 0) == (whole == (int64_t)other_size));
        free(other);
        free(text_sizes);
        free(out);
    }
    free(expected);
    for (size_t i = 0; i < count; i++) {
        for (int part = 0; part < 3; part++) drop(parts[i][part]);
    }
    drop(data);
}

static void check_numbers(struct source *source) {
    const size_t rows = take(source, 1) % (ROWS_MAX + 1), count = take(source, 1) % (ROWS_MAX + 1);
    const struct bytes ids = take_bytes(source, 4 * count), before = take_bytes(source, 8 * count);
    const struct bytes after = copy_of(before.data, before.size);
    uint8_t *queue_ids = exactly(4 * rows), *offsets = exactly(8 * rows);
    int is_right = 1;
    int32_t id = 0, other = 0;
    for (size_t row = 0; row < rows; row++) { /* mostly one of the ids */
        const uint64_t from = take(source, 1);
        int is_there = 0;
        id = (int32_t)from;
        if (count > 0 && from < 250) memcpy(&id, ids.data + 4 * (from % count), 4);
        memcpy(queue_ids + 4 * row, &id, 4);
        for (size_t i = 0; i < count; i++) {
            memcpy(&other, ids.data + 4 * i, 4);
            is_there |= other == id;
        }
        is_right &= is_there;
    }
    for (size_t i = 1; i < count; i++) {
        memcpy(&other, ids.data + 4 * (i - 1), 4);
        memcpy(&id, ids.data + 4 * i, 4);
        is_right &= other < id;
    }
    memset(offsets, 0xEE, 8 * rows);
    const struct queue_table table = {ids.data, (uint8_t *)(uintptr_t)after.data, count};
    CHECK(number_rows(queue_ids, rows, &table, offsets) == is_right);
    for (size_t row = 0; row < rows; row++) {
        uint64_t expected = 0xEEEEEEEEEEEEEEEE;
        for (size_t i = 0; is_right && i < count; i++) {
            if (memcmp(queue_ids + 4 * row, ids.data + 4 * i, 4) != 0) continue;
            expected = (uint64_t)number_of(before.data, i);
            for (size_t earlier = 0; earlier < row; earlier++) {
                expected += memcmp(queue_ids + 4 * row, queue_ids + 4 * earlier, 4) == 0;
            }
        }
        CHECK((uint64_t)number_of(offsets, row) == expected);
    }
    for (size_t i = 0; i < count; i++) {
        uint64_t expected = (uint64_t)number_of(before.data, i);
        for (size_t row = 0; is_right && row < rows; row++) {
            expected += memcmp(queue_ids + 4 * row, ids.data + 4 * i, 4) == 0;
        }
        CHECK((uint64_t)number_of(after.data, i) == expected);
    }
    free(queue_ids);
    free(offsets);
    drop(ids);
    drop(before);
    drop(after);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct source source = {data, size};
    if (take(&source, 1) & 1) check_numbers(&source);
    else check_texts(&source);
    return 0;
}
