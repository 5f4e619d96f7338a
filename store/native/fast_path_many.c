/* Many messages in a call. */
#include "fast_path_steps.h"
#include "message_fields.h"

#define PUT_MANY_SIZE (1 << 20) /* bytes of records that are appended in one call */
#define CHECK_MANY_COUNT 4096

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

PyObject *fast_path_check_many(struct fast_path *fast_path, PyObject *const *arguments, Py_ssize_t count) {
    Py_ssize_t place = first_of("check_many", arguments, count, 2);
    if (place < 0) return NULL;
    const Py_ssize_t size = PyTuple_Size(arguments[0]);
    const Py_ssize_t stop = size - place > CHECK_MANY_COUNT ? place + CHECK_MANY_COUNT : size;
    int is_ordinary = !fast_path_is_kept_away(fast_path);
    for (; is_ordinary && place < stop; place++) {
        PyObject *message = PyTuple_GetItem(arguments[0], place);
        uint8_t properties[FAST_PATH_PROPERTIES_MAX];
        struct fields fields;
        struct prepared prepared;
        is_ordinary = Py_IS_TYPE(message, fast_path->message_type) && fast_path_read_fields(fast_path, message,
                                                                                            &fields) &&
                      fast_path_prepare_record(fast_path, &fields, properties, &prepared) &&
                      (int64_t)prepared.size + BLANK_SIZE <= fast_path->segment.len;
    }
    return PyLong_FromSsize_t(is_ordinary ? place : -1);
}

PyObject *fast_path_put_many(struct fast_path *fast_path, PyObject *const *arguments, Py_ssize_t count) {
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
        if (!Py_IS_TYPE(message, fast_path->message_type)) break;
        const int state = fast_path_put_one(fast_path, message, NULL, &result, &size);
        if (state < 0) return NULL;
        if (state == 0) break;
        const int added = PyList_Append(results, result);
        Py_DECREF(result);
        if (added < 0) return NULL;
        total += size;
    }
    return PyLong_FromSsize_t(place);
}

/* ---- all of a few, each looked at once ---- */

struct fast_path_ready {
    struct prepared prepared;
    PyObject *topic, *queue_id; /* borrowed */
    size_t properties_at;       /* in the fast path's room for them */
};

#define AHEAD 6 /* how many messages ahead the memory is asked for one */

/* Of any address, also of none. */
static void ask_for(const void *address, int lines) {
    for (int i = 0; i < lines; i++) __builtin_prefetch((const void *)((uintptr_t)address + 64 * (uintptr_t)i));
}

/* Messages are mostly made long before they are put: each is a few lines of memory that no cache holds. */
static void ask_ahead(const struct fast_path *fast_path, PyObject *messages, Py_ssize_t place, Py_ssize_t count) {
    if (place + 2 * AHEAD < count) ask_for(PyTuple_GetItem(messages, place + 2 * AHEAD), 3);
    if (place + AHEAD >= count) return;
    PyObject *const message = PyTuple_GetItem(messages, place + AHEAD);
    if (!Py_IS_TYPE(message, fast_path->message_type)) return;
    ask_for(((const struct message_fields *)message)->body, 3);
    ask_for(((const struct message_fields *)message)->keys, 1);
}

/* Room for as many of `size` bytes at *room. */
static int reserve(void **room, size_t *reserved, size_t wished, size_t size) {
    if (wished <= *reserved) return 0;
    void *made = PyMem_Realloc(*room, wished * size);
    if (made == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    *room = made;
    *reserved = wished;
    return 0;
}

enum preparation { FAILED = -1, UNCOMMON, READY, UNKNOWN_QUEUE };

/* Runs no Python code. READY: all of them fit, and nothing but memory can be missing. */
static enum preparation prepare_all(struct fast_path *fast_path, PyObject *messages, Py_ssize_t count) {
    size_t properties_size = 0;
    int64_t total = BLANK_SIZE;
    if (reserve((void **)&fast_path->ready, &fast_path->ready_room, (size_t)count,
                sizeof *fast_path->ready) < 0) return FAILED;
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *message = PyTuple_GetItem(messages, i);
        struct fast_path_ready *ready = &fast_path->ready[i];
        struct fields fields;
        ask_ahead(fast_path, messages, i, count);
        if (fast_path->properties_room - properties_size < FAST_PATH_PROPERTIES_MAX &&
            reserve((void **)&fast_path->properties, &fast_path->properties_room,
                    2 * properties_size + FAST_PATH_PROPERTIES_MAX, 1)) {
            return FAILED;
        }
        if (!Py_IS_TYPE(message, fast_path->message_type) || !fast_path_read_fields(fast_path, message, &fields) ||
            !fast_path_prepare_record(fast_path, &fields, fast_path->properties + properties_size, &ready->prepared)) {
            return UNCOMMON;
        }
        ready->topic = fields.topic;
        ready->queue_id = fields.queue_id;
        ready->properties_at = properties_size;
        properties_size += ready->prepared.record.properties.size;
        total += ready->prepared.size;
        if (total > PUT_MANY_SIZE || (i == 0 && count > PUT_MANY_SIZE / ready->prepared.size)) return UNCOMMON;
        if (fast_path_loaded(&fast_path->queues, ready->prepared.topic, ready->prepared.record.queue_id) == NULL) {
            return UNKNOWN_QUEUE;
        }
    }
    return fast_path->end < fast_path->base || fast_path->limit - fast_path->end < total ? UNCOMMON : READY;
}

/* Has the offset of every queue known, as far as they are ordinary. -1: an error. May run Python code. */
static int load_queues(struct fast_path *fast_path, PyObject *messages, Py_ssize_t count) {
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *message = PyTuple_GetItem(messages, i);
        struct fields fields;
        if (Py_IS_TYPE(message, fast_path->message_type) && fast_path_read_fields(fast_path, message, &fields) &&
            fast_path_load_queue(fast_path, &fields) < 0) {
            return -1;
        }
    }
    return 0;
}

/* Results that nobody but the fast path holds; NULL with an error. May run Python code. */
static PyObject **free_results(struct fast_path *fast_path, Py_ssize_t count) {
    int which = 0;
    while (which < FAST_PATH_RESULTS_KEPT && fast_path->results_of_all[which][0] != NULL &&
           Py_REFCNT(fast_path->results_of_all[which][0]) != 1) {
        which++;
    }
    if (which == FAST_PATH_RESULTS_KEPT) which = fast_path->next_of_all = (fast_path->next_of_all + 1) % FAST_PATH_RESULTS_KEPT;
    PyObject **const results = fast_path->results_of_all[which];
    for (Py_ssize_t i = 0; i < count; i++) {
        if (results[i] != NULL && Py_REFCNT(results[i]) == 1) continue;
        PyObject *made = fast_path_new_result(fast_path), *before = results[i];
        if (made == NULL) return NULL;
        results[i] = made;
        Py_XDECREF(before);
    }
    return results;
}

static int are_free(PyObject *const *results, Py_ssize_t count) {
    for (Py_ssize_t i = 0; i < count; i++) {
        if (results[i] == NULL || Py_REFCNT(results[i]) != 1) return 0;
    }
    return 1;
}

/* Appends what is ready. -1: an error, and those before it are appended. Runs no Python code. */
static int write_all(struct fast_path *fast_path, Py_ssize_t count, int64_t time_ms, PyObject **results,
                     PyObject *list) {
    for (Py_ssize_t i = 0; i < count; i++) {
        struct fast_path_ready *ready = &fast_path->ready[i];
        struct record *record = &ready->prepared.record;
        record->properties.data = fast_path->properties + ready->properties_at;
        struct fast_path_queue *queue = fast_path_loaded(&fast_path->queues, ready->prepared.topic, record->queue_id);
        if (fast_path_write(fast_path, &ready->prepared, queue, time_ms, ready->topic, ready->queue_id,
                            results[i]) < 0) {
            return -1;
        }
        PyObject *const result = results[i];
        if (fast_path_may_refill()) Py_INCREF(result);
        else results[i] = NULL;
        PyList_SetItem(list, i, result);
    }
    return 0;
}

/* Memory is gone, and some are appended. */
static void ring_beside_error(struct fast_path *fast_path) {
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    fast_path_publish(fast_path);
    fast_path_notify(fast_path);
    PyErr_Restore(type, value, trace);
}

PyObject *fast_path_put_all(struct fast_path *fast_path, PyObject *messages) {
    if (!PyTuple_CheckExact(messages)) {
        PyErr_SetString(PyExc_TypeError, "put_all() takes a tuple of messages");
        return NULL;
    }
    const Py_ssize_t count = PyTuple_Size(messages);
    int64_t time_ms;
    if (count == 0 || count > FAST_PATH_ALL_MAX || fast_path_is_kept_away(fast_path)) return Py_NewRef(Py_None);
    if (fast_path_now_ms(fast_path, &time_ms) < 0) return NULL;
    PyObject **const results = free_results(fast_path, count);
    PyObject *const list = results == NULL ? NULL : PyList_New(count);
    if (list == NULL) return NULL;

    enum preparation state = fast_path_is_kept_away(fast_path) ? UNCOMMON : prepare_all(fast_path, messages, count);
    if (state == UNKNOWN_QUEUE) {
        state = load_queues(fast_path, messages, count) < 0 ? FAILED
                : fast_path_is_kept_away(fast_path)              ? UNCOMMON
                                                       : prepare_all(fast_path, messages, count);
    }
    /* From the last look at the blockers on nothing of Python runs. Code that ran before may hold a result by now. */
    if (state == READY && are_free(results, count)) {
        const int64_t before = fast_path->end;
        if (write_all(fast_path, count, time_ms, results, list) == 0) {
            fast_path_publish(fast_path);
            fast_path_notify(fast_path);
            return list;
        }
        state = FAILED;
        if (fast_path->end != before) ring_beside_error(fast_path);
    }
    Py_DECREF(list);
    if (state == FAILED) return NULL;
    return Py_NewRef(Py_None);
}
