/* The steps of an ordinary put, which one put and many share. */
#ifndef FLIGHTLOG_LANE_STEPS_H
#define FLIGHTLOG_LANE_STEPS_H

#include "lane.h"
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

/* ---- lane_record.c ---- */

/* 0 unless every field is set, and those that are seldom used have their defaults. */
int lane_read_fields(const struct lane *lane, PyObject *message, struct fields *fields);
int lane_exact_int32(PyObject *object, int32_t *value);
/* 0 if the message is not ordinary. Runs no Python code and leaves no error. */
int lane_prepare_record(struct lane *lane, const struct fields *fields, uint8_t properties[LANE_PROPERTIES_MAX],
                        struct prepared *out);

/* ---- lane_put.c ---- */

/* Whether something is in the way of ordinary puts. */
int lane_is_kept_away(const struct lane *lane);
/* -1 with an error if the clock that was handed in raises one. */
int lane_now_ms(const struct lane *lane, int64_t *now);
/* 1: the queue's offset is known; 0: not ordinary; -1: an error. May run Python code. */
int lane_load_queue(struct lane *lane, const struct fields *fields);
/*
 * Appends the record, at the lane's end and for which there is room, as the next one of its queue, and fills `result`.
 * -1: an error, nothing has happened. Runs no Python code. Nobody else learns of it before lane_publish().
 */
int lane_write(struct lane *lane, struct prepared *prepared, struct lane_queue *queue, int64_t time_ms,
               PyObject *topic, PyObject *queue_id, PyObject *result);
/* Has other processes see the end. */
void lane_publish(const struct lane *lane);
/* What follows a put that is done: nothing here can undo it. May run Python code. */
void lane_ring(struct lane *lane);
/* 1 and a new reference in *result; 0: not ordinary; -1: an error. May run Python code. */
int lane_put_one(struct lane *lane, PyObject *message, const struct fields *given, PyObject **result, int32_t *size);

#endif
