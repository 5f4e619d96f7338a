/*
 * The fast path: an ordinary put in one call. See pure/fast_path.py, its reference, and native/__init__.py, which says
 * what is ordinary.
 *
 * The GIL is its lock. From the last look at the conditions to the commit point no Python code runs: all that could run
 * some (an allocation that starts a garbage collection, an injected clock) comes before, and nothing after it can fail.
 */
#ifndef FLIGHTLOG_FAST_PATH_H
#define FLIGHTLOG_FAST_PATH_H

#include "arguments.h"
#include "result_fields.h"

/* ---- topics and queue offsets: fast_path_queues.c ---- */

/* Queues with higher ids take the slow path: memory is asked for by the highest id. */
#define FAST_PATH_QUEUES_MAX ((int64_t)1 << 16)

struct fast_path_queue {
    int64_t next_offset;
    uint64_t epoch; /* next_offset counts only while this is the fast path's */
    int is_changed; /* not yet in the dict of the commit log */
};

struct fast_path_topic {
    PyObject *name;
    PyObject *raw; /* bytes, which are these */
    struct bytes bytes;
    int64_t queue_count;
    int64_t known; /* how many queues there are below */
    struct fast_path_queue *queues;
};

struct fast_path_change {
    PyObject *topic; /* the capsule */
    int64_t queue_id;
};

struct fast_path_queues {
    PyObject *offsets;  /* dict: (topic, queue id) -> next queue offset; true while no queue is changed */
    PyObject *topics;   /* dict: name -> capsule of a fast_path_topic */
    PyObject *last;     /* the capsule that the last put found, and under which name object */
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
/* What is known of a topic, borrowed; NULL, without an error, if nothing is. Runs no Python code. */
PyObject *fast_path_find_topic(struct fast_path_queues *queues, PyObject *name);
struct fast_path_topic *fast_path_topic_of(PyObject *capsule);
/* 1: the offset of this queue is known; 0: no such queue; -1: an error. May run Python code. */
int fast_path_load(struct fast_path_queues *queues, PyObject *capsule, int64_t queue_id);
/* The queue if its offset is known, else NULL. Runs no Python code. */
struct fast_path_queue *fast_path_loaded(const struct fast_path_queues *queues, PyObject *capsule, int64_t queue_id);
/* Room to note one change more. */
int fast_path_reserve_change(struct fast_path_queues *queues);
void fast_path_note_change(struct fast_path_queues *queues, PyObject *capsule, int64_t queue_id);

/* ---- properties: fast_path_properties.c ---- */

/* Longer ones take the slow path. */
#define FAST_PATH_PROPERTIES_MAX 4096

/* Bytes written to `out`, -1 if they are not ordinary. Runs no Python code and leaves no error. */
int64_t fast_path_encode_properties(uint8_t out[FAST_PATH_PROPERTIES_MAX], PyObject *properties, PyObject *keys,
                                    PyObject *tags,
                               PyObject *uniq_key, PyObject *special_names);

/* ---- the fast path itself: fast_path_put.c; its type is in module_fast_path.c ---- */

/* Whether an object is a fast path of this kernel. */
int is_fast_path(PyObject *object);

/* How many messages fast_path_put_many() appends at most in a call. */
#define PUT_MANY_MAX 1024
struct fast_path_ready;

struct fast_path {
    PyObject_HEAD
    /* the commit log's, while no condition disables the fast path */
    long long end;
    long long last_store_timestamp_ms;
    long long appended_records;
    long long taken; /* how many of these came this way */
    /* the segment that is open: records lie below `limit`, with room for a filler behind them */
    Py_buffer segment;
    int64_t base, limit;
    /* the progress page */
    Py_buffer page;
    Py_ssize_t words[2]; /* places of those that follow the end; -1: none */

    PyObject *conditions;
    struct fast_path_queues queues;
    PyTypeObject *message_type, *result_type;
    allocfunc allocate_result;
    PyObject *status, *store_host, *special_names, *clock;
    struct bytes host; /* of store_host */
    int64_t max_body_size;
    PyObject *zero;

    PyObject *notify; /* called at the next put while `is_armed` */
    char is_armed;
    PyObject *note; /* called with the milliseconds that every so manieth put took */
    unsigned puts;

    struct fast_path_ready *ready; /* room for the messages of one fast_path_put_many(), and for their properties */
    uint8_t *properties;
    size_t ready_room, properties_room;
};

/* A result whose fields that are the same in all of them are there, the others None and 0 until fast_path_write(). */
struct result_fields *fast_path_new_result(const struct fast_path *fast_path);
/* A PutResult, or None if it is for the slow path. */
PyObject *fast_path_put(struct fast_path *fast_path, PyObject *message);
PyObject *fast_path_append(struct fast_path *fast_path, PyObject *const *arguments, Py_ssize_t count);
PyObject *fast_path_put_many(struct fast_path *fast_path, PyObject *const *arguments, Py_ssize_t count);

#endif
