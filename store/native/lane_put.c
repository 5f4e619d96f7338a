/* The ordinary put: checks, encodes, commits, publishes, and makes the result. */
#include "lane.h"

#include <time.h>

#include "byteorder.h"
#include "record.h"

#define BLANK_SIZE 8
#define TIMED_EVERY 16 /* one put in so many is timed */
#define PUT_MANY_SIZE (1 << 20) /* bytes of records that put_many appends in one call */
#define CHECK_MANY_COUNT 4096

/* What a message is made of; borrowed. */
struct fields {
    PyObject *topic, *body, *tags, *keys, *properties, *queue_id, *uniq_key;
    PyObject *flag, *reconsume_times, *prepared_offset, *born_timestamp;
};

/* ---- from Python's objects to numbers ---- */

static PyObject *field_at(PyObject *message, Py_ssize_t place) { return *(PyObject **)((char *)message + place); }

static int is_zero(PyObject *object) {
    if (object == NULL || !PyLong_CheckExact(object)) return 0;
    int overflow;
    return PyLong_AsLongAndOverflow(object, &overflow) == 0 && !overflow;
}

/* 0 unless every field is set, and those that are seldom used have their defaults. */
static int read_fields(const struct lane *lane, PyObject *message, struct fields *fields) {
    const struct message_places *places = &lane->places;
    fields->topic = field_at(message, places->topic);
    fields->body = field_at(message, places->body);
    fields->tags = field_at(message, places->tags);
    fields->keys = field_at(message, places->keys);
    fields->properties = field_at(message, places->properties);
    fields->queue_id = field_at(message, places->queue_id);
    fields->uniq_key = field_at(message, places->uniq_key);
    fields->flag = field_at(message, places->flag);
    fields->reconsume_times = field_at(message, places->reconsume_times);
    fields->prepared_offset = field_at(message, places->prepared_offset);
    fields->born_timestamp = field_at(message, places->born_timestamp);
    PyObject *sys_flag = field_at(message, places->sys_flag), *delay_level = field_at(message, places->delay_level);
    if (fields->topic == NULL || fields->body == NULL || fields->tags == NULL || fields->keys == NULL ||
        fields->properties == NULL || fields->queue_id == NULL || fields->uniq_key == NULL || fields->flag == NULL ||
        fields->reconsume_times == NULL || fields->prepared_offset == NULL || fields->born_timestamp == NULL ||
        !is_zero(sys_flag) || !is_zero(delay_level)) {
        return 0;
    }
    return field_at(message, places->born_host) == Py_None && field_at(message, places->compress) == Py_None &&
           field_at(message, places->wait_store_ok) == Py_True;
}

static int exact_integer(PyObject *object, int64_t low, int64_t high, int64_t *value) {
    if (!PyLong_CheckExact(object)) return 0;
    int overflow;
    const long long number = PyLong_AsLongLongAndOverflow(object, &overflow);
    *value = number;
    return !overflow && number >= low && number <= high;
}

static int exact_int32(PyObject *object, int32_t *value) {
    int64_t number;
    if (!exact_integer(object, -(int64_t)INT32_MAX - 1, INT32_MAX, &number)) return 0;
    *value = (int32_t)number;
    return 1;
}

struct prepared {
    struct record record;
    int32_t size;
    PyObject *topic; /* capsule, borrowed */
    int has_born_timestamp;
};

/* 0 if the message is not ordinary. Runs no Python code and leaves no error. */
static int prepare_record(struct lane *lane, const struct fields *fields, uint8_t properties[LANE_PROPERTIES_MAX],
                          struct prepared *out) {
    struct record *record = &out->record;
    if (!PyBytes_CheckExact(fields->body) || !exact_int32(fields->queue_id, &record->queue_id) ||
        !exact_int32(fields->flag, &record->flag) ||
        !exact_int32(fields->reconsume_times, &record->reconsume_times) ||
        !exact_integer(fields->prepared_offset, -INT64_MAX, INT64_MAX, &record->prepared_transaction_offset)) {
        return 0;
    }
    out->has_born_timestamp = fields->born_timestamp != Py_None;
    if (out->has_born_timestamp &&
        !exact_integer(fields->born_timestamp, -INT64_MAX, INT64_MAX, &record->born_timestamp_ms)) {
        return 0;
    }
    record->body.data = (const uint8_t *)PyBytes_AsString(fields->body);
    record->body.size = (size_t)PyBytes_Size(fields->body);
    if ((int64_t)record->body.size > lane->max_body_size) return 0;
    out->topic = lane_find_topic(&lane->queues, fields->topic);
    if (out->topic == NULL) return 0;
    const struct lane_topic *topic = lane_topic_of(out->topic);
    if (record->queue_id < 0 || record->queue_id >= topic->queue_count) return 0;
    const int64_t properties_size = lane_encode_properties(properties, fields->properties, fields->keys, fields->tags,
                                                           fields->uniq_key, lane->special_names);
    if (properties_size < 0) return 0;
    record->properties = (struct bytes){properties, (size_t)properties_size};
    record->topic = topic->bytes;
    record->store_host = record->born_host = lane->host;
    record->sys_flag = record->store_host.size == HOST_V6_SIZE ? BORN_HOST_V6 | STORE_HOST_V6 : 0;
    record->magic = record->topic.size <= TOPIC_MAX_V1 ? MAGIC_V1 : MAGIC_V2;
    const char *refusal;
    out->size = record_size(record, &refusal);
    return out->size > 0;
}

/* ---- time ---- */

static int64_t clock_ns(clockid_t which) {
    struct timespec now;
    clock_gettime(which, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* -1 with an error if the clock that was handed in raises one. */
static int now_ms(const struct lane *lane, int64_t *now) {
    if (lane->clock == Py_None) {
        *now = clock_ns(CLOCK_REALTIME) / 1000000;
        return 0;
    }
    PyObject *answer = PyObject_CallFunctionObjArgs(lane->clock, NULL);
    if (answer == NULL) return -1;
    const int result = to_int64(answer, "the time", now);
    Py_DECREF(answer);
    return result;
}

/* ---- the commit ---- */

/* Or it has been collected, and a finalizer calls it. */
static int is_kept_away(const struct lane *lane) { return lane->obstacles == NULL || PyDict_Size(lane->obstacles) != 0; }

static void publish_word(const struct lane *lane, Py_ssize_t place, int64_t value) {
    if (place >= 0) {
        __atomic_store_n((uint64_t *)((char *)lane->page.buf + place), little64((uint64_t)value), __ATOMIC_RELEASE);
    }
}

/*
 * Fills `result` and appends the record. 1: done; 0: not ordinary, nothing has happened; -1: an error, nothing has
 * happened. Runs no Python code.
 */
static int commit(struct lane *lane, const struct fields *fields, int64_t time_ms, PyObject *result, int32_t *size) {
    uint8_t properties[LANE_PROPERTIES_MAX];
    struct prepared prepared;
    if (is_kept_away(lane) || !prepare_record(lane, fields, properties, &prepared)) return 0;
    struct record *record = &prepared.record;
    struct lane_queue *queue = lane_loaded(&lane->queues, prepared.topic, record->queue_id);
    const int64_t start = lane->end;
    if (queue == NULL || start < lane->base || lane->limit - start < (int64_t)prepared.size + BLANK_SIZE) return 0;
    if (time_ms < lane->last_store_timestamp_ms) time_ms = lane->last_store_timestamp_ms;
    if (!prepared.has_born_timestamp) record->born_timestamp_ms = time_ms;
    record->store_timestamp_ms = time_ms;
    record->queue_offset = queue->next_offset;
    record->physical_offset = start;

    PyObject *const items[] = {PyLong_FromLongLong(record->queue_offset), PyLong_FromLongLong(start),
                               lane_number(&lane->size, prepared.size), lane_number(&lane->time, time_ms)};
    if (items[0] == NULL || items[1] == NULL || items[2] == NULL || items[3] == NULL ||
        lane_reserve_change(&lane->queues) < 0) {
        for (int i = 0; i < 4; i++) Py_XDECREF(items[i]);
        return -1;
    }
    lane_fill_result(result, fields->topic, fields->queue_id, items);

    encode_record((uint8_t *)lane->segment.buf + (start - lane->base), prepared.size, record);
    lane->last_store_timestamp_ms = time_ms;
    lane->end = start + prepared.size; /* the commit point */
    queue->next_offset++;
    if (!queue->is_changed) {
        queue->is_changed = 1;
        lane_note_change(&lane->queues, prepared.topic, record->queue_id);
    }
    lane->appended_records++;
    lane->taken++;
    for (int i = 0; i < 2; i++) publish_word(lane, lane->words[i], lane->end);
    *size = prepared.size;
    return 1;
}

/* What follows a put that is done: nothing here can undo it. */
static void ring(struct lane *lane) {
    if (!lane->is_armed || lane->ring == NULL || lane->ring == Py_None) return;
    lane->is_armed = 0;
    PyObject *done = PyObject_CallFunctionObjArgs(lane->ring, NULL);
    if (done == NULL && PyErr_ExceptionMatches(PyExc_RuntimeError)) {
        PyErr_Clear(); /* the bell was rung already */
    } else if (done == NULL) {
        PyErr_WriteUnraisable(lane->ring);
    }
    Py_XDECREF(done);
}

static void note_time(struct lane *lane, int64_t began_ns) {
    PyObject *took_ms = PyFloat_FromDouble((double)(clock_ns(CLOCK_MONOTONIC) - began_ns) / 1e6);
    PyObject *done = took_ms == NULL ? NULL : PyObject_CallFunctionObjArgs(lane->note, took_ms, NULL);
    if (done == NULL) PyErr_WriteUnraisable(lane->note);
    Py_XDECREF(took_ms);
    Py_XDECREF(done);
}

/* 1: the queue's offset is known; 0: not ordinary; -1: an error. May run Python code. */
static int load_queue(struct lane *lane, const struct fields *fields) {
    int32_t queue_id;
    PyObject *topic = lane_find_topic(&lane->queues, fields->topic);
    if (topic == NULL || !exact_int32(fields->queue_id, &queue_id)) return 0;
    if (lane_loaded(&lane->queues, topic, queue_id) != NULL) return 1;
    return lane_load(&lane->queues, topic, queue_id);
}

/* Where a put's fields come from: a message, read anew whenever Python code may have run, or the arguments given. */
static int fields_of(const struct lane *lane, PyObject *message, const struct fields *given, struct fields *fields) {
    if (message != NULL) return read_fields(lane, message, fields);
    *fields = *given;
    return 1;
}

/* The same as put_one() where no object is to be made but numbers: then no Python code runs, and nothing is looked at
 * twice. 0 also for what put_one() is to look at in full. */
static int put_calmly(struct lane *lane, PyObject *message, const struct fields *given, PyObject **result, int32_t *size) {
    PyObject *kept = lane_kept_result(lane);
    struct fields fields;
    if (kept == NULL || lane->clock != Py_None || !fields_of(lane, message, given, &fields)) return 0;
    const int state = commit(lane, &fields, clock_ns(CLOCK_REALTIME) / 1000000, kept, size);
    if (state == 1) {
        Py_INCREF(kept);
        *result = kept;
    }
    return state;
}

/* 1 and a new reference in *result; 0: not ordinary; -1: an error. */
static int put_one(struct lane *lane, PyObject *message, const struct fields *given, PyObject **result, int32_t *size) {
    int state = put_calmly(lane, message, given, result, size);
    if (state == 0) {
        struct fields fields;
        if (is_kept_away(lane) || !fields_of(lane, message, given, &fields)) return 0;
        state = load_queue(lane, &fields);
        if (state <= 0) return state;
        int64_t time_ms;
        if (now_ms(lane, &time_ms) < 0) return -1;
        PyObject *made = lane_new_result(lane);
        if (made == NULL) return -1;
        state = fields_of(lane, message, given, &fields) ? commit(lane, &fields, time_ms, made, size) : 0;
        if (state == 1) {
            *result = made;
            lane_keep_result(lane, made);
        } else {
            Py_DECREF(made);
        }
    }
    if (state == 1) ring(lane);
    return state;
}

static PyObject *put_timed(struct lane *lane, PyObject *message, const struct fields *given) {
    const int is_timed = ++lane->puts % TIMED_EVERY == 0 && lane->note != NULL && lane->note != Py_None;
    const int64_t began_ns = is_timed ? clock_ns(CLOCK_MONOTONIC) : 0;
    PyObject *result;
    int32_t size;
    const int state = put_one(lane, message, given, &result, &size);
    if (state < 0) return NULL;
    if (state == 0) Py_RETURN_NONE;
    if (is_timed) note_time(lane, began_ns);
    return result;
}

PyObject *lane_put(struct lane *lane, PyObject *message) {
    if (!Py_IS_TYPE(message, lane->message_type)) Py_RETURN_NONE;
    return put_timed(lane, message, NULL);
}

PyObject *lane_append(struct lane *lane, PyObject *const *arguments, Py_ssize_t count) {
    enum { TOPIC, QUEUE_ID, BODY, TAGS, KEYS, PROPERTIES, UNIQ_KEY, FLAG, BORN_TIMESTAMP, ARGUMENTS };
    if (check_count("append", count, ARGUMENTS) < 0) return NULL;
    PyObject *zero = PyLong_FromLong(0);
    if (zero == NULL) return NULL;
    const struct fields fields = {
        .topic = arguments[TOPIC], .queue_id = arguments[QUEUE_ID], .body = arguments[BODY], .tags = arguments[TAGS],
        .keys = arguments[KEYS], .properties = arguments[PROPERTIES], .uniq_key = arguments[UNIQ_KEY],
        .flag = arguments[FLAG], .born_timestamp = arguments[BORN_TIMESTAMP], .reconsume_times = zero,
        .prepared_offset = zero,
    };
    PyObject *result = put_timed(lane, NULL, &fields);
    Py_DECREF(zero);
    return result;
}

/* ---- many ---- */

/* -1 with an error, else the place in `messages` to begin at. */
static Py_ssize_t first_of(const char *function, PyObject *const *arguments, Py_ssize_t count, Py_ssize_t expected) {
    int64_t first;
    if (check_count(function, count, expected) < 0 || to_int64(arguments[1], "first", &first) < 0) return -1;
    if (!PyTuple_CheckExact(arguments[0])) {
        PyErr_Format(PyExc_TypeError, "%s() takes a tuple of messages", function);
        return -1;
    }
    if (first < 0 || first > PyTuple_Size(arguments[0])) {
        PyErr_SetString(PyExc_ValueError, "first lies outside of the messages");
        return -1;
    }
    return (Py_ssize_t)first;
}

PyObject *lane_check_many(struct lane *lane, PyObject *const *arguments, Py_ssize_t count) {
    Py_ssize_t place = first_of("check_many", arguments, count, 2);
    if (place < 0) return NULL;
    const Py_ssize_t size = PyTuple_Size(arguments[0]);
    const Py_ssize_t stop = size - place > CHECK_MANY_COUNT ? place + CHECK_MANY_COUNT : size;
    int is_ordinary = !is_kept_away(lane);
    for (; is_ordinary && place < stop; place++) {
        PyObject *message = PyTuple_GetItem(arguments[0], place);
        uint8_t properties[LANE_PROPERTIES_MAX];
        struct fields fields;
        struct prepared prepared;
        is_ordinary = Py_IS_TYPE(message, lane->message_type) && read_fields(lane, message, &fields) &&
                      prepare_record(lane, &fields, properties, &prepared) &&
                      (int64_t)prepared.size + BLANK_SIZE <= lane->segment.len;
    }
    return PyLong_FromSsize_t(is_ordinary ? place : -1);
}

PyObject *lane_put_many(struct lane *lane, PyObject *const *arguments, Py_ssize_t count) {
    Py_ssize_t place = first_of("put_many", arguments, count, 3);
    if (place < 0) return NULL;
    PyObject *messages = arguments[0], *results = arguments[2];
    if (!PyList_CheckExact(results)) {
        PyErr_SetString(PyExc_TypeError, "put_many() adds to a list of results");
        return NULL;
    }
    const Py_ssize_t stop = PyTuple_Size(messages);
    for (int64_t total = 0; place < stop && total < PUT_MANY_SIZE; place++) {
        PyObject *message = PyTuple_GetItem(messages, place), *result = NULL;
        int32_t size;
        if (!Py_IS_TYPE(message, lane->message_type)) break;
        const int state = put_one(lane, message, NULL, &result, &size);
        if (state < 0) return NULL;
        if (state == 0) break;
        const int added = PyList_Append(results, result);
        Py_DECREF(result);
        if (added < 0) return NULL;
        total += size;
    }
    return PyLong_FromSsize_t(place);
}
