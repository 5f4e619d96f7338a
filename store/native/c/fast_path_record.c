/* Converts the Python objects of a message to the numbers and bytes of a record. */
#include "fast_path_steps.h"

#include <arpa/inet.h>

#include "byteorder.h"
#include "message_fields.h"

/* ---- integers ---- */

int fast_path_read_fields(const struct fast_path *fast_path, PyObject *message, struct fields *fields) {
    const struct message_fields *const given = (const struct message_fields *)message;
    *fields = (struct fields){
        .topic = given->topic, .body = given->body, .tags = given->tags, .keys = given->keys,
        .properties = given->properties, .queue_id = given->queue_id, .uniq_key = given->uniq_key, .flag = given->flag,
        .reconsume_times = given->reconsume_times, .prepared_offset = given->prepared_transaction_offset,
        .born_timestamp = given->born_timestamp_ms, .born_host = given->born_host, .sys_flag = given->sys_flag,
    };
    if (fields->topic == NULL || fields->body == NULL || fields->tags == NULL || fields->keys == NULL ||
        fields->properties == NULL || fields->queue_id == NULL || fields->uniq_key == NULL || fields->flag == NULL ||
        fields->reconsume_times == NULL || fields->prepared_offset == NULL || fields->born_timestamp == NULL ||
        fields->born_host == NULL || fields->sys_flag == NULL || given->delay_level == NULL) {
        return 0;
    }
    int32_t delay_level;
    return fast_path_exact_int32(fast_path, given->delay_level, &delay_level) && delay_level == 0 &&
           given->compress == Py_None && given->wait_store_ok == Py_True;
}

/* Whether it is an integer in this range, which contains 0. */
static int exact_integer(const struct fast_path *fast_path, PyObject *object, int64_t low, int64_t high,
                         int64_t *value) {
    *value = 0;
    if (object == fast_path->zero) return 1; /* usual: small integers are cached objects */
    if (!PyLong_CheckExact(object)) return 0;
    int overflow;
    const long long number = PyLong_AsLongLongAndOverflow(object, &overflow);
    *value = number;
    return !overflow && number >= low && number <= high;
}

int fast_path_exact_int32(const struct fast_path *fast_path, PyObject *object, int32_t *value) {
    int64_t number;
    if (!exact_integer(fast_path, object, -(int64_t)INT32_MAX - 1, INT32_MAX, &number)) return 0;
    *value = (int32_t)number;
    return 1;
}

/* ---- hosts ---- */

/* A pair of an address and a port, as encode_host() of store/format/host.py encodes it. 0 for anything else, and for an
 * IPv6 address with a scope. */
static int encode_host(const struct fast_path *fast_path, PyObject *host, uint8_t raw[HOST_V6_SIZE],
                       struct bytes *encoded) {
    int64_t port;
    Py_ssize_t size;
    if (!PyTuple_CheckExact(host) || PyTuple_Size(host) != 2) return 0;
    PyObject *const address = PyTuple_GetItem(host, 0);
    if (!PyUnicode_CheckExact(address) ||
        !exact_integer(fast_path, PyTuple_GetItem(host, 1), 0, UINT16_MAX, &port)) {
        return 0;
    }
    const char *const text = PyUnicode_AsUTF8AndSize(address, &size);
    if (text == NULL) {
        PyErr_Clear(); /* the slow path raises the error */
        return 0;
    }
    if (strlen(text) != (size_t)size) return 0;
    if (inet_pton(AF_INET, text, raw) == 1) encoded->size = HOST_V4_SIZE;
    else if (inet_pton(AF_INET6, text, raw) == 1) encoded->size = HOST_V6_SIZE;
    else return 0;
    store32(raw + encoded->size - 4, (int32_t)port);
    encoded->data = raw;
    return 1;
}

/* ---- properties, as store/format/properties.py encodes them, if they are plain texts ---- */

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

/* The number of bytes written to `out`, or -1 if the properties are not ordinary. Runs no Python code, sets no
 * error. */
static int64_t encode_properties(uint8_t out[FAST_PATH_PROPERTIES_MAX], const struct fields *fields,
                                 PyObject *special_names) {
    static const char tags_head[] = "TAGS\x01", uniq_key_head[] = "UNIQ_KEY\x01";
    struct text text = {out, out + FAST_PATH_PROPERTIES_MAX};
    if (!put_given(&text, fields->properties, special_names) || !put_keys(&text, fields->keys) ||
        !put_optional(&text, tags_head, sizeof tags_head - 1, fields->tags) ||
        !put_optional(&text, uniq_key_head, sizeof uniq_key_head - 1, fields->uniq_key)) {
        return -1;
    }
    return text.at - out;
}

/* ---- the record ---- */

int fast_path_prepare_record(struct fast_path *fast_path, const struct fields *fields,
                             uint8_t properties[FAST_PATH_PROPERTIES_MAX], struct prepared *out) {
    struct record *record = &out->record;
    if (!PyBytes_CheckExact(fields->body) || !fast_path_exact_int32(fast_path, fields->queue_id, &record->queue_id) ||
        !fast_path_exact_int32(fast_path, fields->flag, &record->flag) ||
        !fast_path_exact_int32(fast_path, fields->reconsume_times, &record->reconsume_times) ||
        !exact_integer(fast_path, fields->prepared_offset, -INT64_MAX, INT64_MAX,
                       &record->prepared_transaction_offset)) {
        return 0;
    }
    /* A sender's compression, which the body is stored with; a column input has none. */
    int32_t sys_flag = 0;
    if (fields->sys_flag != NULL &&
        (!fast_path_exact_int32(fast_path, fields->sys_flag, &sys_flag) || (sys_flag & ~COMPRESSION_BITS))) {
        return 0;
    }
    out->has_born_timestamp = fields->born_timestamp != Py_None;
    if (out->has_born_timestamp &&
        !exact_integer(fast_path, fields->born_timestamp, -INT64_MAX, INT64_MAX, &record->born_timestamp_ms)) {
        return 0;
    }
    record->body.data = (const uint8_t *)PyBytes_AsString(fields->body);
    record->body.size = (size_t)PyBytes_Size(fields->body);
    /* An empty body becomes the largest number: whether the store takes it is for the slow path. */
    if ((uint64_t)record->body.size - 1 >= (uint64_t)fast_path->max_body_size) return 0;
    out->topic = fast_path_find_topic(&fast_path->queues, fields->topic);
    if (out->topic == NULL) return 0;
    if (record->queue_id < 0 || record->queue_id >= out->topic->queue_count) return 0;
    const int64_t properties_size = encode_properties(properties, fields, fast_path->special_names);
    if (properties_size < 0) return 0;
    record->properties = (struct bytes){properties, (size_t)properties_size};
    record->topic = out->topic->bytes;
    record->store_host = record->born_host = fast_path->host;
    if (fields->born_host != Py_None &&
        !encode_host(fast_path, fields->born_host, out->born_host, &record->born_host)) {
        return 0;
    }
    record->sys_flag = sys_flag | (record->born_host.size == HOST_V6_SIZE ? BORN_HOST_V6 : 0) |
                       (record->store_host.size == HOST_V6_SIZE ? STORE_HOST_V6 : 0);
    record->magic = record->topic.size <= TOPIC_MAX_V1 ? MAGIC_V1 : MAGIC_V2;
    const char *refusal;
    out->size = record_size(record, &refusal);
    return out->size > 0;
}
