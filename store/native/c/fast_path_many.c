/*
 * put_many on the fast path. Each appended message is examined and written in one go, and the records get their first
 * eight bytes together: until then they can be taken back. The other messages are examined only if the call must tell
 * whether all are ordinary.
 */
#include "fast_path_steps.h"
#include "message_fields.h"

#define PUT_MANY_SIZE (1 << 20) /* bytes of records appended in one call */
#define PUT_MANY_MAX 1024       /* messages appended in one call */
#define CHECKED_AT_ONCE 4096    /* messages checked before other threads get the GIL */
#define AHEAD 6                 /* a message is prefetched this many messages ahead */

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

enum outcome { FAILED = -1, DONE, NO_ROOM, NOT_ORDINARY, UNKNOWN_QUEUE };

/*
 * Writes up to *count messages, and sets it to the number of written ones. Returns DONE, or the reason why there are
 * fewer: after UNKNOWN_QUEUE, the offset of the next message's queue must be loaded. Runs no Python code.
 */
static enum outcome write_some(struct fast_path *fast_path, PyObject *messages, Py_ssize_t first, Py_ssize_t *count,
                               int64_t time_ms, struct written *written) {
    const Py_ssize_t most = *count;
    *count = 0;
    if (fast_path_is_kept_away(fast_path)) return NOT_ORDINARY;
    if (fast_path->end < fast_path->base || fast_path->end > fast_path->limit) return NO_ROOM;
    const int64_t room = fast_path->limit - fast_path->end;
    const int64_t stop = fast_path->end + (room < PUT_MANY_SIZE ? room : PUT_MANY_SIZE);
    for (; *count < most; ++*count) {
        uint8_t properties[FAST_PATH_PROPERTIES_MAX];
        struct fields fields;
        struct prepared prepared;
        ask_ahead(fast_path, messages, first + *count, first + most);
        if (!prepare_message(fast_path, PyTuple_GetItem(messages, first + *count), properties, &fields, &prepared)) {
            return NOT_ORDINARY;
        }
        if (stop - fast_path->end < (int64_t)prepared.size + BLANK_SIZE) return NO_ROOM;
        struct fast_path_queue *queue = fast_path_loaded(&fast_path->queues, prepared.topic, prepared.record.queue_id);
        if (queue == NULL) return UNKNOWN_QUEUE;
        if (fast_path_write(fast_path, &prepared, queue, time_ms, fields.topic, &written[*count]) < 0) return FAILED;
    }
    return DONE;
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

/* A list of `count` blank results, which `written` gets, too; NULL with an error. May run Python code. */
static PyObject *blank_results(const struct fast_path *fast_path, Py_ssize_t count, struct written *written) {
    PyObject *list = NULL; /* the results are put into it last, so that no code sees a list with gaps */
    Py_ssize_t made = 0;
    while (made < count && (written[made].result = fast_path_new_result(fast_path)) != NULL) made++;
    if (made == count) list = PyList_New(count);
    for (Py_ssize_t i = 0; i < made; i++) {
        if (list != NULL) PyList_SetItem(list, i, (PyObject *)written[i].result);
        else Py_DECREF((PyObject *)written[i].result);
    }
    return list;
}

/* What write_some() changes. */
struct before {
    int64_t end, last_store_timestamp_ms;
    size_t change_count;
};

static struct before look(const struct fast_path *fast_path) {
    return (struct before){fast_path->end, fast_path->last_store_timestamp_ms, fast_path->queues.change_count};
}

/* As before: the segment has zeros where the `count` records were. Runs no Python code. */
static void take_back(struct fast_path *fast_path, const struct before *before, const struct written *written,
                      Py_ssize_t count) {
    if (count == 0) return;
    for (Py_ssize_t i = 0; i < count; i++) {
        written[i].queue->next_offset--;
        Py_CLEAR(written[i].result->topic);
    }
    fast_path_forget_changes(&fast_path->queues, before->change_count);
    memset((uint8_t *)fast_path->segment.buf + (before->end - fast_path->base), 0,
           (size_t)(fast_path->end - before->end));
    fast_path->end = before->end;
    fast_path->last_store_timestamp_ms = before->last_store_timestamp_ms;
    fast_path->appended_records -= count;
    fast_path->taken -= count;
}

/*
 * Appends at most `most` messages from `first` on. Returns their results; NULL with an error; None, without appending
 * any, if `are_all` and a message is not ordinary.
 */
static PyObject *put_some(struct fast_path *fast_path, PyObject *messages, Py_ssize_t first, Py_ssize_t most,
                          int are_all) {
    struct written written[PUT_MANY_MAX];
    int64_t time_ms;
    if (most == 0) return PyList_New(0);
    if (fast_path_now_ms(fast_path, &time_ms) < 0) return NULL;
    PyObject *const list = blank_results(fast_path, most, written);
    if (list == NULL) return NULL;
    struct before before = look(fast_path);
    Py_ssize_t count = most;
    enum outcome state = write_some(fast_path, messages, first, &count, time_ms, written);
    if (state == UNKNOWN_QUEUE) {
        take_back(fast_path, &before, written, count);
        count = 0;
        state = load_queues(fast_path, messages, first, most) < 0 ? FAILED : DONE;
        before = look(fast_path);
        if (state == DONE) {
            count = most;
            state = write_some(fast_path, messages, first, &count, time_ms, written);
        }
    }
    /* No Python code runs from the last check of the conditions, in write_some(), to the commit. */
    const int is_refused =
        are_all && (state == NOT_ORDINARY ||
                    (state > DONE && !are_ordinary(fast_path, messages, first + count, first + most)));
    if (state != FAILED && !is_refused && (count == most || PyList_SetSlice(list, count, most, NULL) == 0)) {
        if (count > 0) {
            fast_path_commit(fast_path, written, count);
            fast_path_notify(fast_path);
        }
        return list;
    }
    take_back(fast_path, &before, written, count);
    Py_DECREF(list);
    return is_refused ? Py_NewRef(Py_None) : NULL;
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
