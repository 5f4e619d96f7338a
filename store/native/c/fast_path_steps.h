/* The steps of an ordinary put, which one put and many share. */
#ifndef FLIGHTLOG_FAST_PATH_STEPS_H
#define FLIGHTLOG_FAST_PATH_STEPS_H

#include "fast_path.h"
#include "record.h"

#define BLANK_SIZE 8 /* of the filler, for which a segment keeps room */

/* What a message is made of; borrowed. */
struct fields {
    PyObject *topic, *body, *tags, *keys, *properties, *queue_id, *uniq_key;
    PyObject *flag, *reconsume_times, *prepared_offset, *born_timestamp;
};

struct prepared {
    struct record record;
    int32_t size;
    PyObject *topic; /* capsule, borrowed */
    int has_born_timestamp;
};

/* ---- fast_path_record.c ---- */

/* 0 unless every field is set, and those that are seldom used have their defaults. */
int fast_path_read_fields(const struct fast_path *fast_path, PyObject *message, struct fields *fields);
int fast_path_exact_int32(PyObject *object, int32_t *value);
/* 0 if the message is not ordinary. Runs no Python code and leaves no error. */
int fast_path_prepare_record(struct fast_path *fast_path, const struct fields *fields,
                             uint8_t properties[FAST_PATH_PROPERTIES_MAX],
                        struct prepared *out);

/* ---- fast_path_put.c ---- */

/* Whether something is in the way of ordinary puts. */
int fast_path_is_kept_away(const struct fast_path *fast_path);
/* -1 with an error if the clock that was handed in raises one. */
int fast_path_now_ms(const struct fast_path *fast_path, int64_t *now);
/* 1: the queue's offset is known; 0: not ordinary; -1: an error. May run Python code. */
int fast_path_load_queue(struct fast_path *fast_path, const struct fields *fields);
/*
 * Appends the record, at the fast path's end and for which there is room, as the next one of its queue, and fills
 * `result`. -1: an error, nothing has happened. Runs no Python code. Nobody else learns of it before
 * fast_path_publish().
 */
int fast_path_write(struct fast_path *fast_path, struct prepared *prepared, struct fast_path_queue *queue,
                    int64_t time_ms, PyObject *topic, struct result_fields *result);
/* Has other processes see the end. */
void fast_path_publish(const struct fast_path *fast_path);
/* What follows a put that is done: nothing here can undo it. May run Python code. */
void fast_path_notify(struct fast_path *fast_path);

#endif
