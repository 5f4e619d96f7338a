/*
 * The topics that are registered with the fast path, and the next offset of each queue.
 *
 * The commit log owns the offsets, in a dict. The fast path loads them from there, counts in plain integers, and writes
 * changed ones back before other code reads the dict. After that it loads them again (`epoch`).
 */
#include "fast_path.h"

static void free_topic(PyObject *capsule) {
    struct fast_path_topic *topic = PyCapsule_GetPointer(capsule, NULL);
    if (topic == NULL) return;
    Py_XDECREF(topic->name);
    Py_XDECREF(topic->raw);
    PyMem_Free(topic->queues);
    PyMem_Free(topic);
}

static void forget_last(struct fast_path_queues *queues) {
    struct fast_path_topic *const last = queues->last;
    queues->last = NULL;
    Py_CLEAR(queues->last_name);
    if (last != NULL) Py_DECREF(last->capsule);
}

int fast_path_queues_init(struct fast_path_queues *queues, PyObject *offsets) {
    memset(queues, 0, sizeof *queues);
    queues->epoch = 1;
    queues->topics = PyDict_New();
    if (queues->topics == NULL) return -1;
    Py_INCREF(offsets);
    queues->offsets = offsets;
    return 0;
}

void fast_path_queues_clear(struct fast_path_queues *queues) {
    fast_path_forget_changes(queues, 0);
    PyMem_Free(queues->changes);
    queues->changes = NULL;
    queues->change_room = 0;
    forget_last(queues);
    Py_CLEAR(queues->topics);
    Py_CLEAR(queues->offsets);
}

int fast_path_register_topic(struct fast_path_queues *queues, PyObject *name, PyObject *raw, int64_t queue_count) {
    struct fast_path_topic *topic = PyMem_Calloc(1, sizeof *topic);
    if (topic == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    topic->queue_count = queue_count < FAST_PATH_QUEUES_MAX ? queue_count : FAST_PATH_QUEUES_MAX;
    Py_INCREF(name);
    Py_INCREF(raw);
    topic->name = name;
    topic->raw = raw;
    topic->bytes = (struct bytes){(const uint8_t *)PyBytes_AsString(raw), (size_t)PyBytes_Size(raw)};
    PyObject *capsule = PyCapsule_New(topic, NULL, free_topic);
    if (capsule == NULL) {
        Py_DECREF(name);
        Py_DECREF(raw);
        PyMem_Free(topic);
        return -1;
    }
    topic->capsule = capsule;
    /* Write back the changes of an earlier topic of this name; otherwise both would count on their own. */
    int result = fast_path_write_back_offsets(queues);
    if (result == 0) {
        forget_last(queues);
        result = PyDict_SetItem(queues->topics, name, capsule);
    }
    Py_DECREF(capsule);
    return result;
}

int fast_path_unregister_topic(struct fast_path_queues *queues, PyObject *name) {
    forget_last(queues);
    if (PyDict_DelItem(queues->topics, name) == 0) return 0;
    if (!PyErr_ExceptionMatches(PyExc_KeyError)) return -1;
    PyErr_Clear();
    return 0;
}

struct fast_path_topic *fast_path_find_topic(struct fast_path_queues *queues, PyObject *name) {
    if (name == queues->last_name) return queues->last;
    if (!PyUnicode_CheckExact(name)) return NULL;
    PyObject *found = PyDict_GetItemWithError(queues->topics, name);
    if (found == NULL) {
        PyErr_Clear();
        return NULL;
    }
    Py_INCREF(found);
    Py_INCREF(name);
    forget_last(queues); /* a capsule and a str: their destructors run no Python code */
    queues->last = PyCapsule_GetPointer(found, NULL);
    queues->last_name = name;
    return queues->last;
}

static int make_room(struct fast_path_topic *topic, int64_t queue_id) {
    if (queue_id < topic->known) return 0;
    int64_t wished = topic->known == 0 ? 4 : topic->known;
    while (wished <= queue_id) wished *= 2;
    if (wished > topic->queue_count) wished = topic->queue_count;
    struct fast_path_queue *queues = PyMem_Realloc(topic->queues, (size_t)wished * sizeof *queues);
    if (queues == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    memset(queues + topic->known, 0, (size_t)(wished - topic->known) * sizeof *queues);
    topic->queues = queues;
    topic->known = wished;
    return 0;
}

int fast_path_load(struct fast_path_queues *queues, struct fast_path_topic *topic, int64_t queue_id) {
    if (queue_id < 0 || queue_id >= topic->queue_count) return 0;
    if (fast_path_loaded(queues, topic, queue_id) != NULL) return 1;
    /* Building the key may start a garbage collection, and so code that unregisters the topic. */
    PyObject *const capsule = Py_NewRef(topic->capsule);
    int result = -1;
    PyObject *key = Py_BuildValue("(OL)", topic->name, (long long)queue_id);
    if (key != NULL && make_room(topic, queue_id) == 0) {
        /* No Python code runs from here on, so the offset in the dict is current. */
        struct fast_path_queue *queue = &topic->queues[queue_id];
        PyObject *next = PyDict_GetItemWithError(queues->offsets, key);
        const long long offset = next != NULL ? PyLong_AsLongLong(next) : 0;
        if (!PyErr_Occurred()) {
            if (queue->epoch != queues->epoch) {
                queue->next_offset = offset;
                queue->epoch = queues->epoch;
                queue->is_changed = 0;
            }
            result = 1;
        }
    }
    Py_XDECREF(key);
    Py_DECREF(capsule);
    return result;
}

static int reserve_change(struct fast_path_queues *queues) {
    if (queues->change_count < queues->change_room) return 0;
    const size_t room = queues->change_room == 0 ? 64 : queues->change_room * 2;
    struct fast_path_change *changes = PyMem_Realloc(queues->changes, room * sizeof *changes);
    if (changes == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    queues->changes = changes;
    queues->change_room = room;
    return 0;
}

int fast_path_note_change(struct fast_path_queues *queues, struct fast_path_topic *topic, int64_t queue_id) {
    if (reserve_change(queues) < 0) return -1;
    Py_INCREF(topic->capsule);
    queues->changes[queues->change_count++] = (struct fast_path_change){topic, queue_id};
    topic->queues[queue_id].is_changed = 1;
    return 0;
}

void fast_path_forget_changes(struct fast_path_queues *queues, size_t count) {
    while (queues->change_count > count) {
        const struct fast_path_change change = queues->changes[--queues->change_count];
        change.topic->queues[change.queue_id].is_changed = 0;
        Py_DECREF(change.topic->capsule);
    }
}

/* The index of a change; change_count if it is not noted. */
static size_t place_of(const struct fast_path_queues *queues, struct fast_path_change change) {
    for (size_t i = queues->change_count; i-- > 0;) {
        if (queues->changes[i].topic == change.topic && queues->changes[i].queue_id == change.queue_id) return i;
    }
    return queues->change_count;
}

int fast_path_write_back_offsets(struct fast_path_queues *queues) {
    int result = 0;
    while (result == 0 && queues->change_count > 0) {
        const struct fast_path_change change = queues->changes[queues->change_count - 1];
        struct fast_path_topic *topic = change.topic;
        PyObject *const capsule = Py_NewRef(topic->capsule);
        PyObject *key = Py_BuildValue("(OL)", topic->name, (long long)change.queue_id);
        /* This may have run code that wrote back or changed offsets. No Python code runs from here on. */
        const size_t place = place_of(queues, change);
        if (key != NULL && place < queues->change_count) {
            struct fast_path_queue *queue = &topic->queues[change.queue_id];
            PyObject *next = PyLong_FromLongLong(queue->next_offset);
            result = next == NULL ? -1 : PyDict_SetItem(queues->offsets, key, next);
            if (result == 0) {
                queue->is_changed = 0;
                queues->changes[place] = queues->changes[--queues->change_count];
                Py_DECREF(capsule); /* the reference of the change */
            }
            Py_XDECREF(next);
        } else if (key == NULL) {
            result = -1;
        }
        Py_XDECREF(key);
        Py_DECREF(capsule);
    }
    return result;
}
