/* The pairs in a record's property text, as RocketMQ's parser reads them: name 0x01 value 0x02; the last 0x02 may be
 * missing. A pair without a name or a value is ignored.
 */
#ifndef FLIGHTLOG_PROPERTY_TEXT_H
#define FLIGHTLOG_PROPERTY_TEXT_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "encode.h"

/* Reads the next valid pair. 1, or 0 at the end. */
static inline int next_pair(struct bytes *left, struct bytes *name, struct bytes *value) {
    enum { NAME_END = 1, VALUE_END = 2 };
    while (left->size > 0) {
        const uint8_t *const at = left->data;
        const uint8_t *const stop = memchr(at, VALUE_END, left->size);
        const size_t size = stop != NULL ? (size_t)(stop - at) : left->size;
        const uint8_t *const name_end = size > 0 ? memchr(at, NAME_END, size) : NULL;
        left->data += stop != NULL ? size + 1 : size;
        left->size -= stop != NULL ? size + 1 : size;
        if (name_end == NULL || name_end == at || name_end + 1 == at + size) continue;
        *name = (struct bytes){at, (size_t)(name_end - at)};
        *value = (struct bytes){name_end + 1, size - name->size - 1};
        return 1;
    }
    return 0;
}

/* The value of the last pair of this name; its data is NULL if there is none. */
static inline struct bytes value_of(struct bytes raw, const char *wanted) {
    const size_t size = strlen(wanted);
    struct bytes name, value, found = {NULL, 0};
    while (next_pair(&raw, &name, &value)) {
        if (name.size == size && memcmp(name.data, wanted, size) == 0) found = value;
    }
    return found;
}

#endif
