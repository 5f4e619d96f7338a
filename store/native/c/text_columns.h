/* Encodes properties of many messages, from a column for each property to a text for each message. */
#ifndef FLIGHTLOG_TEXT_COLUMNS_H
#define FLIGHTLOG_TEXT_COLUMNS_H

#include "columns.h"

#define NAME_END 0x01
#define VALUE_END 0x02

/* One property: its name followed by NAME_END, and the value of each row. A row with an empty value lacks it. */
struct property_column {
    struct bytes head;
    struct ranges values;
    int is_constant; /* the single range of `values` is that of every row */
};

/* Size of all texts, or -1 if a value is outside of its data or the sum exceeds 63 bits. */
int64_t texts_size(const struct property_column *columns, size_t column_count, size_t rows);

/*
 * Writes the texts consecutively into out[0, size), where `size` is the result of texts_size(), and their sizes into
 * `text_sizes`, an int64 column. Neither may overlap the columns. 1: done; 2: done, and all names and values are plain
 * ASCII without NAME_END and VALUE_END; 0 if the columns have changed meanwhile and do not fit any more. Nothing is
 * written beyond out[0, size) even then.
 */
int write_texts(const struct property_column *columns, size_t column_count, size_t rows, uint8_t *out, int64_t size,
                uint8_t *text_sizes);

#endif
