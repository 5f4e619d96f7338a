/* The ordinary put: checks, encodes, commits, publishes, and makes the result. */
#include "lane_steps.h"

#include <time.h>

#include "byteorder.h"

#define TIMED_EVERY 16 /* one put in so many is timed */

/* ---- time ---- */

static int64_t clock_ns(clockid_t which) {
    struct timespec now;
    clock_gettime(which, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

int lane_now_ms(const struct lane *lane, int64_t *now) {
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
int lane_is_kept_away(const struct lane *lane) { return lane->obstacles == NULL || PyDict_Size(lane->obstacles) != 0; }

static void publish_word(const struct lane *lane, Py_ssize_t place, int64_t value) {
    if (place >= 0) {
        __atomic_store_n((uint64_t *)((char *)lane->page.buf + place), little64((uint64_t)value), __ATOMIC_RELEASE);
    }
}

void lane_publish(const struct lane *lane) {
    for (int i = 0; i < 2; i++) publish_word(lane, lane->words[i], lane->end);
}

int lane_write(struct lane *lane, struct prepared *prepared, struct lane_queue *queue, int64_t time_ms,
               PyObject *topic, PyObject *queue_id, PyObject *result) {
    struct record *record = &prepared->record;
    const int64_t start = lane->end;
    if (time_ms < lane->last_store_timestamp_ms) time_ms = lane->last_store_timestamp_ms;
    if (!prepared->has_born_timestamp) record->born_timestamp_ms = time_ms;
    record->store_timestamp_ms = time_ms;
    record->queue_offset = queue->next_offset;
    record->physical_offset = start;

    PyObject *const items[] = {PyLong_FromLongLong(record->queue_offset), PyLong_FromLongLong(start),
                               lane_number(&lane->size, prepared->size), lane_number(&lane->time, time_ms)};
    if (items[0] == NULL || items[1] == NULL || items[2] == NULL || items[3] == NULL ||
        lane_reserve_change(&lane->queues) < 0) {
        for (int i = 0; i < 4; i++) Py_XDECREF(items[i]);
        return -1;
    }
    lane_fill_result(result, topic, queue_id, items);

    encode_record((uint8_t *)lane->segment.buf + (start - lane->base), prepared->size, record);
    lane->last_store_timestamp_ms = time_ms;
    lane->end = start + prepared->size; /* the commit point */
    queue->next_offset++;
    if (!queue->is_changed) {
        queue->is_changed = 1;
        lane_note_change(&lane->queues, prepared->topic, record->queue_id);
    }
    lane->appended_records++;
    lane->taken++;
    return 0;
}

/*
 * Fills `result` and appends the record. 1: done; 0: not ordinary, nothing has happened; -1: an error, nothing has
 * happened. Runs no Python code.
 */
static int commit(struct lane *lane, const struct fields *fields, int64_t time_ms, PyObject *result, int32_t *size) {
    uint8_t properties[LANE_PROPERTIES_MAX];
    struct prepared prepared;
    if (lane_is_kept_away(lane) || !lane_prepare_record(lane, fields, properties, &prepared)) return 0;
    struct lane_queue *queue = lane_loaded(&lane->queues, prepared.topic, prepared.record.queue_id);
    if (queue == NULL || lane->end < lane->base || lane->limit - lane->end < (int64_t)prepared.size + BLANK_SIZE) {
        return 0;
    }
    if (lane_write(lane, &prepared, queue, time_ms, fields->topic, fields->queue_id, result) < 0) return -1;
    lane_publish(lane);
    *size = prepared.size;
    return 1;
}

void lane_ring(struct lane *lane) {
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

int lane_load_queue(struct lane *lane, const struct fields *fields) {
    int32_t queue_id;
    PyObject *topic = lane_find_topic(&lane->queues, fields->topic);
    if (topic == NULL || !lane_exact_int32(fields->queue_id, &queue_id)) return 0;
    if (lane_loaded(&lane->queues, topic, queue_id) != NULL) return 1;
    return lane_load(&lane->queues, topic, queue_id);
}

/* Where a put's fields come from: a message, read anew whenever Python code may have run, or the arguments given. */
static int fields_of(const struct lane *lane, PyObject *message, const struct fields *given, struct fields *fields) {
    if (message != NULL) return lane_read_fields(lane, message, fields);
    *fields = *given;
    return 1;
}

/* The same as lane_put_one() where no object is to be made but numbers: then no Python code runs, and nothing is looked at
 * twice. 0 also for what lane_put_one() is to look at in full. */
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

int lane_put_one(struct lane *lane, PyObject *message, const struct fields *given, PyObject **result, int32_t *size) {
    int state = put_calmly(lane, message, given, result, size);
    if (state == 0) {
        struct fields fields;
        if (lane_is_kept_away(lane) || !fields_of(lane, message, given, &fields)) return 0;
        state = lane_load_queue(lane, &fields);
        if (state <= 0) return state;
        int64_t time_ms;
        if (lane_now_ms(lane, &time_ms) < 0) return -1;
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
    if (state == 1) lane_ring(lane);
    return state;
}

static PyObject *put_timed(struct lane *lane, PyObject *message, const struct fields *given) {
    const int is_timed = ++lane->puts % TIMED_EVERY == 0 && lane->note != NULL && lane->note != Py_None;
    const int64_t began_ns = is_timed ? clock_ns(CLOCK_MONOTONIC) : 0;
    PyObject *result;
    int32_t size;
    const int state = lane_put_one(lane, message, given, &result, &size);
    if (state < 0) return NULL;
    if (state == 0) return Py_NewRef(Py_None);
    if (is_timed) note_time(lane, began_ns);
    return result;
}

PyObject *lane_put(struct lane *lane, PyObject *message) {
    if (!Py_IS_TYPE(message, lane->message_type)) return Py_NewRef(Py_None);
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
