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

/* ---- the record ---- */

int fast_path_prepare_record(struct fast_path *fast_path, const struct fields *fields,
                             uint8_t properties[FAST_PATH_PROPERTIES_MAX],
                        struct prepared *out) {
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
    const int64_t properties_size = fast_path_encode_properties(properties, fields->properties, fields->keys,
                                                                fields->tags,
                                                           fields->uniq_key, fast_path->special_names);
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
