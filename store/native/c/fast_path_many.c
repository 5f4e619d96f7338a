/*
 * put_many on the fast path. Each appended message is examined once; the others are examined only if the call must tell
 * whether all are ordinary.
 */
#include "fast_path_steps.h"
#include "message_fields.h"

#define PUT_MANY_SIZE (1 << 20) /* bytes of records appended in one call */
#define CHECKED_AT_ONCE 4096    /* messages checked before other threads get the GIL */

struct fast_path_ready {
    struct prepared prepared;
    PyObject *topic;      /* borrowed */
    size_t properties_at; /* in the fast path's buffer for properties */
};

#define AHEAD 6 /* a message is prefetched this many messages ahead */

/* Prefetch; the address may be invalid or NULL. */
static void ask_for(const void *address, int lines) {
    for (int i = 0; i < lines; i++) __builtin_prefetch((const void *)((uintptr_t)address + 64 * (uintptr_t)i));
}

/* Most messages are created long before they are put, so their few cache lines are in no cache. */
static void ask_ahead(const struct fast_path *fast_path, PyObject *messages, Py_ssize_t place, Py_ssize_t count) {
    if (place + 2 * AHEAD < count) ask_for(PyTuple_GetItem(messages, place + 2 * AHEAD), 3);
    if (place + AHEAD >= count) return;
    PyObject *const message = PyTuple_GetItem(messages, place + AHEAD);
    if (!Py_IS_TYPE(message, fast_path->message_type)) return;
    ask_for(((const struct message_fields *)message)->body, 3);
    ask_for(((const struct message_fields *)message)->keys, 1);
}

/* Grows the buffer at *room to `wished` items of `size` bytes. */
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

/* The index in `messages` to begin at, or -1 with an error. */
static Py_ssize_t first_of(PyObject *const *arguments, Py_ssize_t count) {
    int64_t first;
    if (check_count("put_many", count, 2) < 0 || to_int64(arguments[1], "first", &first) < 0) return -1;
    if (!PyTuple_CheckExact(arguments[0])) {
        PyErr_SetString(PyExc_TypeError, "put_many() takes a tuple of messages");
        return -1;
    }
    if (first < 0 || first > PyTuple_Size(arguments[0])) {
        PyErr_SetString(PyExc_ValueError, "first lies outside of the messages");
        return -1;
    }
    return (Py_ssize_t)first;
}

/* Whether the message is ordinary; prepares its record. Runs no Python code. */
static int prepare_message(struct fast_path *fast_path, PyObject *message, uint8_t *properties, struct fields *fields,
                           struct prepared *prepared) {
    return Py_IS_TYPE(message, fast_path->message_type) && fast_path_read_fields(fast_path, message, fields) &&
           fast_path_prepare_record(fast_path, fields, properties, prepared) &&
           (int64_t)prepared->size + BLANK_SIZE <= fast_path->segment.len;
}

/* Whether the messages in [place, stop) are ordinary. Lets other threads run if there are many. */
static int are_ordinary(struct fast_path *fast_path, PyObject *messages, Py_ssize_t place, Py_ssize_t stop) {
    for (Py_ssize_t checked = 1; place < stop; place++, checked++) {
        uint8_t properties[FAST_PATH_PROPERTIES_MAX];
        struct fields fields;
        struct prepared prepared;
        if (!prepare_message(fast_path, PyTuple_GetItem(messages, place), properties, &fields, &prepared)) return 0;
        if (checked % CHECKED_AT_ONCE == 0) PyEval_RestoreThread(let_others_run());
    }
    return 1;
}

/* The most messages from `first` on to append, estimated from the size of the first; 0 if that is not ordinary. */
static Py_ssize_t most_at_once(struct fast_path *fast_path, PyObject *messages, Py_ssize_t first) {
    uint8_t properties[FAST_PATH_PROPERTIES_MAX];
    struct fields fields;
    struct prepared prepared;
    const Py_ssize_t left = PyTuple_Size(messages) - first, most = left < PUT_MANY_MAX ? left : PUT_MANY_MAX;
    if (fast_path_is_kept_away(fast_path) ||
        !prepare_message(fast_path, PyTuple_GetItem(messages, first), properties, &fields, &prepared)) {
        return 0;
    }
    const Py_ssize_t fitting = PUT_MANY_SIZE / prepared.size + 1;
    return fitting < most ? fitting : most;
}

enum preparation { FAILED = -1, READY, NO_ROOM, NOT_ORDINARY, UNKNOWN_QUEUE };

/*
 * Prepares up to *count messages, and sets it to the number of prepared ones. Returns READY, or the reason why there
 * are fewer: after UNKNOWN_QUEUE, the offset of the next message's queue must be loaded. Runs no Python code.
 */
static enum preparation prepare_some(struct fast_path *fast_path, PyObject *messages, Py_ssize_t first,
                                     Py_ssize_t *count) {
    const Py_ssize_t most = *count;
    size_t properties_size = 0;
    int64_t total = BLANK_SIZE, room = fast_path->end < fast_path->base ? 0 : fast_path->limit - fast_path->end;
    if (room > PUT_MANY_SIZE) room = PUT_MANY_SIZE;
    *count = 0;
    if (fast_path_is_kept_away(fast_path)) return NOT_ORDINARY;
    if (reserve((void **)&fast_path->ready, &fast_path->ready_room, (size_t)most, sizeof *fast_path->ready) < 0) {
        return FAILED;
    }
    for (; *count < most; ++*count) {
        struct fast_path_ready *ready = &fast_path->ready[*count];
        struct fields fields;
        ask_ahead(fast_path, messages, first + *count, first + most);
        if (fast_path->properties_room - properties_size < FAST_PATH_PROPERTIES_MAX &&
            reserve((void **)&fast_path->properties, &fast_path->properties_room,
                    2 * properties_size + FAST_PATH_PROPERTIES_MAX, 1)) {
            return FAILED;
        }
        if (!prepare_message(fast_path, PyTuple_GetItem(messages, first + *count),
                             fast_path->properties + properties_size, &fields, &ready->prepared)) {
            return NOT_ORDINARY;
        }
        total += ready->prepared.size;
        if (total > room) return NO_ROOM;
        if (fast_path_loaded(&fast_path->queues, ready->prepared.topic, ready->prepared.record.queue_id) == NULL) {
            return UNKNOWN_QUEUE;
        }
        ready->topic = fields.topic;
        ready->properties_at = properties_size;
        properties_size += ready->prepared.record.properties.size;
    }
    return READY;
}

/* Loads the queue offsets of the ordinary messages. -1: an error. May run Python code. */
static int load_queues(struct fast_path *fast_path, PyObject *messages, Py_ssize_t first, Py_ssize_t count) {
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *message = PyTuple_GetItem(messages, first + i);
        struct fields fields;
        if (Py_IS_TYPE(message, fast_path->message_type) && fast_path_read_fields(fast_path, message, &fields) &&
            fast_path_load_queue(fast_path, &fields) < 0) {
            return -1;
        }
    }
    return 0;
}

/* A list of `count` blank results; NULL with an error. May run Python code. */
static PyObject *blank_results(const struct fast_path *fast_path, Py_ssize_t count) {
    PyObject *results[PUT_MANY_MAX], *list = NULL; /* put into the list last, so that no code sees a list with gaps */
    Py_ssize_t made = 0;
    while (made < count && (results[made] = (PyObject *)fast_path_new_result(fast_path)) != NULL) made++;
    if (made == count) list = PyList_New(count);
    for (Py_ssize_t i = 0; i < made; i++) {
        if (list != NULL) PyList_SetItem(list, i, results[i]);
        else Py_DECREF(results[i]);
    }
    return list;
}

/* Appends the prepared messages, and fills their results in the list. -1: an error; the messages before it are
 * appended. Runs no Python code. */
static int write_all(struct fast_path *fast_path, Py_ssize_t count, int64_t time_ms, PyObject *list) {
    for (Py_ssize_t i = 0; i < count; i++) {
        struct fast_path_ready *ready = &fast_path->ready[i];
        struct record *record = &ready->prepared.record;
        record->properties.data = fast_path->properties + ready->properties_at;
        struct fast_path_queue *queue = fast_path_loaded(&fast_path->queues, ready->prepared.topic, record->queue_id);
        if (fast_path_write(fast_path, &ready->prepared, queue, time_ms, ready->topic,
                            (struct result_fields *)PyList_GetItem(list, i)) < 0) {
            return -1;
        }
    }
    return 0;
}

/* Out of memory after some were appended. */
static void notify_beside_error(struct fast_path *fast_path) {
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    fast_path_publish(fast_path);
    fast_path_notify(fast_path);
    PyErr_Restore(type, value, trace);
}

/*
 * Appends at most `most` messages from `first` on. Returns their results; NULL with an error; None, without appending
 * any, if `are_all` and a message is not ordinary.
 */
static PyObject *put_some(struct fast_path *fast_path, PyObject *messages, Py_ssize_t first, Py_ssize_t most,
                          int are_all) {
    int64_t time_ms;
    if (most == 0) return PyList_New(0);
    if (fast_path_now_ms(fast_path, &time_ms) < 0) return NULL;
    PyObject *const list = blank_results(fast_path, most);
    if (list == NULL) return NULL;
    Py_ssize_t count = most;
    enum preparation state = prepare_some(fast_path, messages, first, &count);
    if (state == UNKNOWN_QUEUE) {
        count = most;
        state = load_queues(fast_path, messages, first, most) < 0 ? FAILED
                                                                  : prepare_some(fast_path, messages, first, &count);
    }
    /* No Python code runs from the last check of the conditions, in prepare_some(), to the commit. */
    if (are_all && (state == NOT_ORDINARY || (state != READY && state != FAILED &&
                                              !are_ordinary(fast_path, messages, first + count, first + most)))) {
        Py_DECREF(list);
        return Py_NewRef(Py_None);
    }
    if (state != FAILED && (count == most || PyList_SetSlice(list, count, most, NULL) == 0)) {
        const int64_t before = fast_path->end;
        const int result = write_all(fast_path, count, time_ms, list);
        if (result == 0 && count > 0) {
            fast_path_publish(fast_path);
            fast_path_notify(fast_path);
        }
        if (result == 0) return list;
        if (fast_path->end != before) notify_beside_error(fast_path);
    }
    Py_DECREF(list);
    return NULL;
}

PyObject *fast_path_put_many(struct fast_path *fast_path, PyObject *const *arguments, Py_ssize_t count) {
    const Py_ssize_t first = first_of(arguments, count);
    if (first < 0) return NULL;
    PyObject *const messages = arguments[0];
    const Py_ssize_t size = PyTuple_Size(messages);
    const Py_ssize_t most = first < size ? most_at_once(fast_path, messages, first) : 0;
    if (first == 0 && size > 0 && (most == 0 || !are_ordinary(fast_path, messages, most, size))) {
        return Py_NewRef(Py_None);
    }
    return put_some(fast_path, messages, first, most, first == 0);
}
