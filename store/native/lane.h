/*
 * The lane: an ordinary put in one call. See twin_lane.py, its reference, and native/__init__.py, which says what is
 * ordinary.
 *
 * The GIL is its lock. From the last look at the obstacles to the commit point no Python code runs: all that could run
 * some (an allocation that starts a garbage collection, an injected clock) comes before, and nothing after it can fail.
 */
#ifndef FLIGHTLOG_LANE_H
#define FLIGHTLOG_LANE_H

#include "arguments.h"

/* ---- topics and queue offsets: lane_queues.c ---- */

/* Queues with higher ids go the long way: memory is asked for by the highest id. */
#define LANE_QUEUES_MAX ((int64_t)1 << 16)

struct lane_queue {
    int64_t next_offset;
    uint64_t epoch; /* next_offset counts only while this is the lane's */
    int is_changed; /* not yet in the dict of the commit log */
};

struct lane_topic {
    PyObject *name;
    PyObject *raw; /* bytes, which are these */
    struct bytes bytes;
    int64_t queue_count;
    int64_t known; /* how many queues there are below */
    struct lane_queue *queues;
};

struct lane_change {
    PyObject *topic; /* the capsule */
    int64_t queue_id;
};

struct lane_queues {
    PyObject *offsets;  /* dict: (topic, queue id) -> next queue offset; true while no queue is changed */
    PyObject *topics;   /* dict: name -> capsule of a lane_topic */
    PyObject *last;     /* the capsule that the last put found, and under which name object */
    PyObject *last_name;
    uint64_t epoch;
    struct lane_change *changes;
    size_t change_count, change_room;
};

int lane_queues_init(struct lane_queues *queues, PyObject *offsets);
void lane_queues_clear(struct lane_queues *queues);
int lane_learn(struct lane_queues *queues, PyObject *name, PyObject *raw, int64_t queue_count);
int lane_forget(struct lane_queues *queues, PyObject *name);
/* Writes every changed offset into the dict. */
int lane_hand_over(struct lane_queues *queues);
/* What is known of a topic, borrowed; NULL, without an error, if nothing is. Runs no Python code. */
PyObject *lane_find_topic(struct lane_queues *queues, PyObject *name);
struct lane_topic *lane_topic_of(PyObject *capsule);
/* 1: the offset of this queue is known; 0: no such queue; -1: an error. May run Python code. */
int lane_load(struct lane_queues *queues, PyObject *capsule, int64_t queue_id);
/* The queue if its offset is known, else NULL. Runs no Python code. */
struct lane_queue *lane_loaded(const struct lane_queues *queues, PyObject *capsule, int64_t queue_id);
/* Room to note one change more. */
int lane_reserve_change(struct lane_queues *queues);
void lane_note_change(struct lane_queues *queues, PyObject *capsule, int64_t queue_id);

/* ---- properties: lane_properties.c ---- */

/* Longer ones go the long way. */
#define LANE_PROPERTIES_MAX 4096

/* Bytes written to `out`, -1 if they are not ordinary. Runs no Python code and leaves no error. */
int64_t lane_encode_properties(uint8_t out[LANE_PROPERTIES_MAX], PyObject *properties, PyObject *keys, PyObject *tags,
                               PyObject *uniq_key, PyObject *special_names);

/* ---- the lane itself: lane_put.c; its type is in module_lane.c ---- */

/* Whether an object is a lane of this kernel. */
int is_lane(PyObject *object);

struct kept_number {
    PyObject *object;
    int64_t number;
};

/* One that the caller has in his hand when he puts, and the one that he had before. */
#define LANE_RESULTS_KEPT 2

/* How many messages lane_put_all() takes. */
#define LANE_ALL_MAX 1024
struct lane_ready;

struct lane {
    PyObject_HEAD
    /* the commit log's, while no obstacle keeps the lane away */
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

    PyObject *obstacles;
    struct lane_queues queues;
    PyTypeObject *message_type, *result_type;
    allocfunc allocate_result;
    PyObject *status, *store_host, *special_names, *clock;
    struct bytes host; /* of store_host */
    int64_t max_body_size;
    PyObject *zero;

    PyObject *ring; /* called at the next put while `is_armed` */
    char is_armed;
    PyObject *note; /* called with the milliseconds that every so manieth put took */
    unsigned puts;

    struct kept_number size, time; /* of the last put: the next one's are often the same */
    PyObject *results[LANE_RESULTS_KEPT]; /* of puts before, to be filled anew once their callers have dropped them */
    int next_result;
    PyObject *results_of_all[LANE_RESULTS_KEPT][LANE_ALL_MAX]; /* the same of lane_put_all(), by place in the call */
    int next_of_all;
    struct lane_ready *ready; /* room for the messages of one lane_put_all(), and for their properties */
    uint8_t *properties;
    size_t ready_room, properties_room;
};

/* ---- results: lane_result.c ---- */

/* The same object as last time if the number is the same; a new reference. */
PyObject *lane_number(struct kept_number *kept, int64_t number);
/* A tuple whose fields that are the same in all results are there, the others None until filled. May run Python code. */
PyObject *lane_new_result(const struct lane *lane);
/*
 * An earlier result that nobody but the lane holds any more, or NULL; borrowed. Most callers drop a result at once, or
 * when they have the next one, and to make and to end one takes a fifth of a put. Runs no Python code.
 */
PyObject *lane_kept_result(const struct lane *lane);
/* Have lane_kept_result() find it later. Its fields are numbers and texts: nothing runs at the end of the one before. */
void lane_keep_result(struct lane *lane, PyObject *result);
/* Whether results that nobody holds can be filled anew. */
int lane_may_refill(void);
/* Takes over the references to the numbers. Runs no Python code, and cannot fail. */
void lane_fill_result(PyObject *result, PyObject *topic, PyObject *queue_id, PyObject *const numbers[4]);

/* A PutResult, or None if it is for the long way. */
PyObject *lane_put(struct lane *lane, PyObject *message);
PyObject *lane_append(struct lane *lane, PyObject *const *arguments, Py_ssize_t count);
/* See native/__init__.py. */
PyObject *lane_check_many(struct lane *lane, PyObject *const *arguments, Py_ssize_t count);
PyObject *lane_put_many(struct lane *lane, PyObject *const *arguments, Py_ssize_t count);
PyObject *lane_put_all(struct lane *lane, PyObject *messages);

#endif
