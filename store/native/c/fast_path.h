/*
 * The fast path: an ordinary put in one call. pure/fast_path.py is its reference; native/__init__.py defines which puts
 * are ordinary.
 *
 * The GIL is its lock. No Python code runs between the last check of the conditions and the commit point: everything
 * that could run some (an allocation that starts a garbage collection, an injected clock) is done before, and nothing
 * after it can fail.
 */
#ifndef FLIGHTLOG_FAST_PATH_H
#define FLIGHTLOG_FAST_PATH_H

#include "arguments.h"
#include "result_fields.h"

/* ---- topics and queue offsets: fast_path_queues.c ---- */

/* Queues with higher ids take the slow path: memory is allocated up to the highest id. */
#define FAST_PATH_QUEUES_MAX ((int64_t)1 << 16)

struct fast_path_queue {
    int64_t next_offset;
    uint64_t epoch; /* next_offset is valid only while this equals the fast path's epoch */
    int is_changed; /* not yet written back to the dict of the commit log */
};

struct fast_path_topic {
    PyObject *capsule; /* of this struct, borrowed; whoever keeps the struct holds a reference to it */
    PyObject *name;
    PyObject *raw; /* a bytes object, whose content is `bytes` */
    struct bytes bytes;
    int64_t queue_count;
    int64_t known; /* number of `queues` */
    struct fast_path_queue *queues;
};

struct fast_path_change {
    struct fast_path_topic *topic;
    int64_t queue_id;
};

struct fast_path_queues {
    PyObject *offsets;  /* dict: (topic, queue id) -> next queue offset; current while no queue is changed */
    PyObject *topics;   /* dict: name -> capsule of a fast_path_topic */
    struct fast_path_topic *last; /* the topic of the last put, and its name object */
    PyObject *last_name;
    uint64_t epoch;
    struct fast_path_change *changes;
    size_t change_count, change_room;
};

int fast_path_queues_init(struct fast_path_queues *queues, PyObject *offsets);
void fast_path_queues_clear(struct fast_path_queues *queues);
int fast_path_register_topic(struct fast_path_queues *queues, PyObject *name, PyObject *raw, int64_t queue_count);
int fast_path_unregister_topic(struct fast_path_queues *queues, PyObject *name);
/* Writes every changed offset into the dict. */
int fast_path_write_back_offsets(struct fast_path_queues *queues);
/* The topic, borrowed; NULL without an error if it is not registered. Runs no Python code. */
struct fast_path_topic *fast_path_find_topic(struct fast_path_queues *queues, PyObject *name);
/* Loads the offset of a queue. 1: loaded; 0: no such queue; -1: an error. May run Python code. */
int fast_path_load(struct fast_path_queues *queues, struct fast_path_topic *topic, int64_t queue_id);
/* The queue if its offset is loaded, else NULL. */
static inline struct fast_path_queue *fast_path_loaded(const struct fast_path_queues *queues,
                                                       const struct fast_path_topic *topic, int64_t queue_id) {
    if (queue_id < 0 || queue_id >= topic->known) return NULL;
    struct fast_path_queue *queue = &topic->queues[queue_id];
    return queue->epoch == queues->epoch ? queue : NULL;
}
/* Notes that a queue differs from the dict. -1: an error. */
int fast_path_note_change(struct fast_path_queues *queues, struct fast_path_topic *topic, int64_t queue_id);
/* Forgets the changes beyond the first `count`. */
void fast_path_forget_changes(struct fast_path_queues *queues, size_t count);

/* ---- the fast path itself: fast_path_put.c; its type is in module_fast_path.c ---- */

/* Whether an object is a FastPath of this kernel. */
int is_fast_path(PyObject *object);

struct fast_path {
    PyObject_HEAD
    /* state of the commit log, valid while no condition disables the fast path */
    long long end;
    long long last_store_timestamp_ms;
    long long appended_records;
    long long taken; /* records appended by the fast path */
    /* the open segment: records end below `limit`, which leaves room for the filler */
    Py_buffer segment;
    int64_t base, limit;
    /* the progress page */
    Py_buffer page;
    Py_ssize_t words[2]; /* indexes of the words that follow the end; -1: none */

    PyObject *conditions;
    struct fast_path_queues queues;
    PyTypeObject *message_type, *result_type;
    allocfunc allocate_result;
    PyObject *status, *store_host, *special_names, *clock;
    struct bytes host; /* the bytes of store_host */
    int64_t max_body_size;
    PyObject *zero;

    PyObject *notify; /* called at the next put while `is_armed` */
    char is_armed;
    PyObject *note; /* called with the duration in ms of one put in so many */
    unsigned puts;
};

/* A result with the fields that all results share; the others are None and 0 until fast_path_write(). */
struct result_fields *fast_path_new_result(const struct fast_path *fast_path);
/* A PutResult, or None if the put is for the slow path. */
PyObject *fast_path_put(struct fast_path *fast_path, PyObject *message);
PyObject *fast_path_append(struct fast_path *fast_path, PyObject *const *arguments, Py_ssize_t count);
PyObject *fast_path_put_many(struct fast_path *fast_path, PyObject *const *arguments, Py_ssize_t count);

#endif
