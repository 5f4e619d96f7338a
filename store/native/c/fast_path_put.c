/* The ordinary put: checks, encodes, commits, publishes, and makes the result. */
#include "fast_path_steps.h"

#include <time.h>

#include "byteorder.h"

#define TIMED_EVERY 16 /* one put in so many is timed */

/* ---- time ---- */

static int64_t clock_ns(clockid_t which) {
    struct timespec now;
    clock_gettime(which, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

int fast_path_now_ms(const struct fast_path *fast_path, int64_t *now) {
    if (fast_path->clock == Py_None) {
        *now = clock_ns(CLOCK_REALTIME) / 1000000;
        return 0;
    }
    PyObject *answer = PyObject_CallFunctionObjArgs(fast_path->clock, NULL);
    if (answer == NULL) return -1;
    const int result = to_int64(answer, "the time", now);
    Py_DECREF(answer);
    return result;
}

/* ---- the result ---- */

struct result_fields *fast_path_new_result(const struct fast_path *fast_path) {
    PyObject *const made = fast_path->allocate_result(fast_path->result_type, 0);
    struct result_fields *const result = (struct result_fields *)made;
    if (made != NULL) {
        result->status = Py_NewRef(fast_path->status);
        result->store_host_raw = Py_NewRef(fast_path->store_host);
    }
    return result;
}

/* ---- the commit ---- */

/* Also if the fast path has been collected, and a finalizer calls it: then it has no conditions. */
int fast_path_is_kept_away(const struct fast_path *fast_path) { return fast_path->conditions == NULL ||
                                                               PyDict_Size(fast_path->conditions) != 0; }

static void publish_word(const struct fast_path *fast_path, Py_ssize_t place, int64_t value) {
    if (place >= 0) {
        __atomic_store_n((uint64_t *)((char *)fast_path->page.buf + place), little64((uint64_t)value),
                         __ATOMIC_RELEASE);
    }
}

void fast_path_commit(const struct fast_path *fast_path, const struct written *written, Py_ssize_t count) {
    for (Py_ssize_t i = 0; i < count; i++) publish_head(written[i].at, written[i].size, written[i].magic);
    for (int i = 0; i < 2; i++) publish_word(fast_path, fast_path->words[i], fast_path->end);
}

int fast_path_write(struct fast_path *fast_path, struct prepared *prepared, struct fast_path_queue *queue,
                    int64_t time_ms, PyObject *topic, struct written *written) {
    struct record *record = &prepared->record;
    struct result_fields *const result = written->result;
    const int64_t start = fast_path->end;
    if (time_ms < fast_path->last_store_timestamp_ms) time_ms = fast_path->last_store_timestamp_ms;
    if (!prepared->has_born_timestamp) record->born_timestamp_ms = time_ms;
    record->store_timestamp_ms = time_ms;
    record->queue_offset = queue->next_offset;
    record->physical_offset = start;

    if (!queue->is_changed && fast_path_note_change(&fast_path->queues, prepared->topic, record->queue_id) < 0) {
        return -1;
    }
    result->topic = Py_NewRef(topic);
    result->queue_id = record->queue_id;
    result->queue_offset = record->queue_offset;
    result->physical_offset = start;
    result->size = prepared->size;
    result->store_timestamp_ms = time_ms;

    written->queue = queue;
    written->at = (uint8_t *)fast_path->segment.buf + (start - fast_path->base);
    written->size = prepared->size;
    written->magic = record->magic;
    encode_hidden(written->at, record);
    fast_path->last_store_timestamp_ms = time_ms;
    fast_path->end = start + prepared->size;
    queue->next_offset++;
    fast_path->appended_records++;
    fast_path->taken++;
    return 0;
}

enum outcome { FAILED = -1, NOT_ORDINARY, DONE, UNKNOWN_QUEUE };

/* Appends the record and fills `result`. Unless DONE, nothing has happened. Runs no Python code. */
static enum outcome commit(struct fast_path *fast_path, const struct fields *fields, int64_t time_ms,
                           struct result_fields *result) {
    uint8_t properties[FAST_PATH_PROPERTIES_MAX];
    struct prepared prepared;
    if (fast_path_is_kept_away(fast_path) || !fast_path_prepare_record(fast_path, fields, properties, &prepared) ||
        fast_path->end < fast_path->base ||
        fast_path->limit - fast_path->end < (int64_t)prepared.size + BLANK_SIZE) {
        return NOT_ORDINARY;
    }
    struct fast_path_queue *queue = fast_path_loaded(&fast_path->queues, prepared.topic, prepared.record.queue_id);
    if (queue == NULL) return UNKNOWN_QUEUE;
    struct written written = {.result = result};
    if (fast_path_write(fast_path, &prepared, queue, time_ms, fields->topic, &written) < 0) return FAILED;
    fast_path_commit(fast_path, &written, 1);
    return DONE;
}

void fast_path_notify(struct fast_path *fast_path) {
    if (!fast_path->is_armed || fast_path->notify == NULL || fast_path->notify == Py_None) return;
    fast_path->is_armed = 0;
    PyObject *done = PyObject_CallFunctionObjArgs(fast_path->notify, NULL);
    if (done == NULL && PyErr_ExceptionMatches(PyExc_RuntimeError)) {
        PyErr_Clear(); /* it is notified already */
    } else if (done == NULL) {
        PyErr_WriteUnraisable(fast_path->notify);
    }
    Py_XDECREF(done);
}

static void note_time(struct fast_path *fast_path, int64_t began_ns) {
    PyObject *took_ms = PyFloat_FromDouble((double)(clock_ns(CLOCK_MONOTONIC) - began_ns) / 1e6);
    PyObject *done = took_ms == NULL ? NULL : PyObject_CallFunctionObjArgs(fast_path->note, took_ms, NULL);
    if (done == NULL) PyErr_WriteUnraisable(fast_path->note);
    Py_XDECREF(took_ms);
    Py_XDECREF(done);
}

int fast_path_load_queue(struct fast_path *fast_path, const struct fields *fields) {
    int32_t queue_id;
    struct fast_path_topic *topic = fast_path_find_topic(&fast_path->queues, fields->topic);
    if (topic == NULL || !fast_path_exact_int32(fast_path, fields->queue_id, &queue_id)) return 0;
    if (fast_path_loaded(&fast_path->queues, topic, queue_id) != NULL) return 1;
    return fast_path_load(&fast_path->queues, topic, queue_id);
}

/* The source of a put's fields: a message, which is read again after Python code may have run, or arguments. */
static int fields_of(const struct fast_path *fast_path, PyObject *message, const struct fields *given,
                     struct fields *fields) {
    if (message != NULL) return fast_path_read_fields(fast_path, message, fields);
    *fields = *given;
    return 1;
}

/* Reads the fields, and the store time. May run Python code. */
static enum outcome begin(struct fast_path *fast_path, PyObject *message, const struct fields *given,
                          int64_t *time_ms) {
    if (fast_path_is_kept_away(fast_path)) return NOT_ORDINARY;
    if (fast_path->clock != Py_None) { /* the clock is called only for ordinary messages */
        struct fields fields;
        if (!fields_of(fast_path, message, given, &fields)) return NOT_ORDINARY;
        const int is_known = fast_path_load_queue(fast_path, &fields);
        if (is_known <= 0) return is_known < 0 ? FAILED : NOT_ORDINARY;
    }
    return fast_path_now_ms(fast_path, time_ms) < 0 ? FAILED : DONE;
}

/* A PutResult; None if the put is for the slow path; NULL with an error. */
static PyObject *put_one(struct fast_path *fast_path, PyObject *message, const struct fields *given) {
    int64_t time_ms;
    enum outcome outcome = begin(fast_path, message, given, &time_ms);
    struct result_fields *result = NULL;
    if (outcome == DONE) {
        result = fast_path_new_result(fast_path);
        outcome = result == NULL ? FAILED : UNKNOWN_QUEUE;
    }
    for (int is_loaded = 0; outcome == UNKNOWN_QUEUE && is_loaded < 2; is_loaded++) {
        struct fields fields; /* read again after Python code may have run */
        if (is_loaded && fields_of(fast_path, message, given, &fields) &&
            fast_path_load_queue(fast_path, &fields) < 0) {
            outcome = FAILED;
        } else {
            outcome = fields_of(fast_path, message, given, &fields) ? commit(fast_path, &fields, time_ms, result)
                                                                    : NOT_ORDINARY;
        }
    }
    if (outcome == DONE) {
        fast_path_notify(fast_path);
        return (PyObject *)result;
    }
    Py_XDECREF((PyObject *)result);
    return outcome == FAILED ? NULL : Py_NewRef(Py_None);
}

static PyObject *put_timed(struct fast_path *fast_path, PyObject *message, const struct fields *given) {
    const int is_timed = ++fast_path->puts % TIMED_EVERY == 0 && fast_path->note != NULL && fast_path->note != Py_None;
    const int64_t began_ns = is_timed ? clock_ns(CLOCK_MONOTONIC) : 0;
    PyObject *const result = put_one(fast_path, message, given);
    if (is_timed && result != NULL && result != Py_None) note_time(fast_path, began_ns);
    return result;
}

PyObject *fast_path_put(struct fast_path *fast_path, PyObject *message) {
    if (!Py_IS_TYPE(message, fast_path->message_type)) return Py_NewRef(Py_None);
    return put_timed(fast_path, message, NULL);
}

PyObject *fast_path_append(struct fast_path *fast_path, PyObject *const *arguments, Py_ssize_t count) {
    enum { TOPIC, QUEUE_ID, BODY, TAGS, KEYS, PROPERTIES, UNIQ_KEY, FLAG, BORN_TIMESTAMP, ARGUMENTS };
    if (check_count("append", count, ARGUMENTS) < 0) return NULL;
    PyObject *zero = PyLong_FromLong(0);
    if (zero == NULL) return NULL;
    const struct fields fields = {
        .topic = arguments[TOPIC], .queue_id = arguments[QUEUE_ID], .body = arguments[BODY], .tags = arguments[TAGS],
        .keys = arguments[KEYS], .properties = arguments[PROPERTIES], .uniq_key = arguments[UNIQ_KEY],
        .flag = arguments[FLAG], .born_timestamp = arguments[BORN_TIMESTAMP], .reconsume_times = zero,
        .prepared_offset = zero, .born_host = Py_None,
    };
    PyObject *result = put_timed(fast_path, NULL, &fields);
    Py_DECREF(zero);
    return result;
}
