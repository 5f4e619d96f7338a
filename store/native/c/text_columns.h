/* The properties of many messages, from a column a property to a text a message. */
#ifndef FLIGHTLOG_TEXT_COLUMNS_H
#define FLIGHTLOG_TEXT_COLUMNS_H

#include "columns.h"

#define NAME_END 0x01
#define VALUE_END 0x02

/* One property: its name with NAME_END behind it, and the value of each row; no bytes: the row does not have it. */
struct property_column {
    struct bytes head;
    struct ranges values;
    int is_constant; /* the one range of `values` is every row's */
};

/* Bytes of all texts, or -1 if a value lies outside of its data or the sum is beyond 63 bits. */
int64_t texts_size(const struct property_column *columns, size_t column_count, size_t rows);

/*
 * Writes the texts one behind the other into out[0, size), where `size` is what texts_size() said, and each one's size
 * into `text_sizes`, an int64 column. Neither may hold bytes of the columns. 1: done; 2: done, and every value is plain:
 * ASCII without NAME_END and VALUE_END, the heads but for the end of each likewise; 0 if the columns have changed
 * meanwhile so that they do not fit any more: nothing is written beyond out[0, size) then.
 */
int write_texts(const struct property_column *columns, size_t column_count, size_t rows, uint8_t *out, int64_t size,
                uint8_t *text_sizes);

#endif
