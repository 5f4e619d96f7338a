/* Encodes properties as store/format/properties.py does, if they are plain texts. */
#include "fast_path.h"

#define NAME_END 0x01
#define VALUE_END 0x02

struct text {
    uint8_t *at;
    uint8_t *end;
};

/* 0 without room. */
static int put_bytes(struct text *out, const char *data, size_t size) {
    if (size > (size_t)(out->end - out->at)) return 0;
    memcpy(out->at, data, size);
    out->at += size;
    return 1;
}

#define ONES UINT64_C(0x0101010101010101) /* in each byte of a word */

/* Whether a byte of the word is below `limit`, which is at most 128. */
static uint64_t below(uint64_t word, uint64_t limit) { return (word - limit * ONES) & ~word & 128 * ONES; }

/* A name or value and the byte after it. 0 unless it is a text, not empty, encodable as UTF-8, and without
 * separators and zeros (many zeros are refused: store/format/properties.py). */
static int put_part(struct text *out, PyObject *part, char separator, int has_spaces) {
    if (!PyUnicode_CheckExact(part)) return 0;
    Py_ssize_t size;
    const char *data = PyUnicode_AsUTF8AndSize(part, &size);
    if (data == NULL) {
        PyErr_Clear(); /* the slow path raises the error */
        return 0;
    }
    if (size == 0 || size >= out->end - out->at) return 0;
    uint64_t bad = 0, word = 0;
    const uint64_t space = has_spaces ? 0 : ' ' * ONES;
    Py_ssize_t place = 0;
    for (; size - place >= 8; place += 8) {
        memcpy(&word, data + place, 8);
        memcpy(out->at + place, &word, 8);
        bad |= below(word, VALUE_END + 1) | below(word ^ space, 1);
    }
    for (; place < size; place++) {
        const uint8_t byte = (uint8_t)data[place];
        bad |= byte <= VALUE_END || byte == (uint8_t)space;
        out->at[place] = byte;
    }
    if (bad) return 0;
    out->at += size;
    *out->at++ = (uint8_t)separator;
    return 1;
}

static int put_keys(struct text *out, PyObject *keys) {
    static const char head[] = "KEYS\x01";
    if (PyUnicode_CheckExact(keys)) {
        return PyUnicode_GetLength(keys) == 0 ||
               (put_bytes(out, head, sizeof head - 1) && put_part(out, keys, VALUE_END, 0));
    }
    const int is_tuple = PyTuple_CheckExact(keys);
    if (!is_tuple && !PyList_CheckExact(keys)) return 0;
    const Py_ssize_t count = is_tuple ? PyTuple_Size(keys) : PyList_Size(keys);
    if (count == 0) return 1;
    if (!put_bytes(out, head, sizeof head - 1)) return 0;
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *key = is_tuple ? PyTuple_GetItem(keys, i) : PyList_GetItem(keys, i);
        if (!put_part(out, key, i + 1 < count ? ' ' : VALUE_END, 0)) return 0;
    }
    return 1;
}

static int put_optional(struct text *out, const char *head, size_t head_size, PyObject *value) {
    if (value == Py_None) return 1;
    if (!PyUnicode_CheckExact(value)) return 0;
    if (PyUnicode_GetLength(value) == 0) return 1;
    return put_bytes(out, head, head_size) && put_part(out, value, VALUE_END, 1);
}

/* Whether a name with a meaning to a put means nothing beside this value: the put waits anyway. */
static int is_default(PyObject *name, PyObject *value) {
    return PyUnicode_CompareWithASCIIString(name, "WAIT") == 0 && PyUnicode_CheckExact(value) &&
           PyUnicode_CompareWithASCIIString(value, "true") == 0;
}

static int put_given(struct text *out, PyObject *properties, PyObject *special_names) {
    if (properties == Py_None) return 1;
    if (!PyDict_CheckExact(properties)) return 0;
    PyObject *name, *value;
    Py_ssize_t place = 0;
    while (PyDict_Next(properties, &place, &name, &value)) {
        if (!PyUnicode_CheckExact(name)) return 0;
        const int is_special = PySet_Contains(special_names, name);
        if (is_special < 0) PyErr_Clear();
        if (is_special < 0 || (is_special && !is_default(name, value))) return 0;
        if (!put_part(out, name, NAME_END, 1) || !put_part(out, value, VALUE_END, 1)) return 0;
    }
    return 1;
}

int64_t fast_path_encode_properties(uint8_t out[FAST_PATH_PROPERTIES_MAX], PyObject *properties, PyObject *keys,
                                    PyObject *tags,
                               PyObject *uniq_key, PyObject *special_names) {
    static const char tags_head[] = "TAGS\x01", uniq_key_head[] = "UNIQ_KEY\x01";
    struct text text = {out, out + FAST_PATH_PROPERTIES_MAX};
    if (!put_given(&text, properties, special_names) || !put_keys(&text, keys) ||
        !put_optional(&text, tags_head, sizeof tags_head - 1, tags) ||
        !put_optional(&text, uniq_key_head, sizeof uniq_key_head - 1, uniq_key)) {
        return -1;
    }
    return text.at - out;
}
