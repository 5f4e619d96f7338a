/*
 * Many messages in a call: each of those that are appended is looked at once, all others only if the call is to say
 * whether they are ordinary.
 */
#include "fast_path_steps.h"
#include "message_fields.h"

#define PUT_MANY_SIZE (1 << 20) /* bytes of records that are appended in one call */
#define CHECKED_AT_ONCE 4096    /* messages that are checked before others get the GIL */

struct fast_path_ready {
    struct prepared prepared;
    PyObject *topic;      /* borrowed */
    size_t properties_at; /* in the fast path's room for them */
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

/* -1 with an error, else the place in `messages` to begin at. */
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

/* Whether the message is ordinary, and the record that it makes. Runs no Python code. */
static int prepare_message(struct fast_path *fast_path, PyObject *message, uint8_t *properties, struct fields *fields,
                           struct prepared *prepared) {
    return Py_IS_TYPE(message, fast_path->message_type) && fast_path_read_fields(fast_path, message, fields) &&
           fast_path_prepare_record(fast_path, fields, properties, prepared) &&
           (int64_t)prepared->size + BLANK_SIZE <= fast_path->segment.len;
}

/* Whether the messages in [place, stop) are ordinary. Others may run meanwhile where they are many. */
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

/* How many messages from `first` on a call appends at most, as the first one lets guess; 0 if that is not ordinary. */
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
 * Has up to *count messages ready, and sets it to how many are; unless READY, why it is not one more. After
 * UNKNOWN_QUEUE that one needs the offset of its queue. Runs no Python code.
 */
static enum preparation prepare_some(struct fast_path *fast_path, PyObject *messages, Py_ssize_t first,
                                     Py_ssize_t *count) {
    const Py_ssize_t most = *count;
    size_t properties_size = 0;
    int64_t total = BLANK_SIZE, room = fast_path->limit - fast_path->end;
    if (fast_path->end < fast_path->base) room = 0;
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

/* Has the offsets of the messages' queues known, as far as they are ordinary. -1: an error. May run Python code. */
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

/* A list of so many results that are to be filled; NULL with an error. May run Python code. */
static PyObject *blank_results(const struct fast_path *fast_path, Py_ssize_t count) {
    PyObject *results[PUT_MANY_MAX], *list = NULL; /* into the list at last: nobody is to see one with gaps */
    Py_ssize_t made = 0;
    while (made < count && (results[made] = (PyObject *)fast_path_new_result(fast_path)) != NULL) made++;
    if (made == count) list = PyList_New(count);
    for (Py_ssize_t i = 0; i < made; i++) {
        if (list != NULL) PyList_SetItem(list, i, results[i]);
        else Py_DECREF(results[i]);
    }
    return list;
}

/* Appends what is ready, whose results the list has. -1: an error, and those before it are appended. Runs no Python
 * code. */
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

/* Memory is gone, and some are appended. */
static void notify_beside_error(struct fast_path *fast_path) {
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    fast_path_publish(fast_path);
    fast_path_notify(fast_path);
    PyErr_Restore(type, value, trace);
}

/*
 * Appends from `first` on, `most` at most; their results, or NULL with an error. None, and nothing is appended, if `are_all`
 * are to be ordinary and one is not.
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
    /* From the last look at the conditions, in prepare_some(), to the commit nothing of Python runs. */
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
