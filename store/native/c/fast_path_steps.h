/* The steps of an ordinary put, shared by put and put_many. */
#ifndef FLIGHTLOG_FAST_PATH_STEPS_H
#define FLIGHTLOG_FAST_PATH_STEPS_H

#include "fast_path.h"
#include "record.h"

#define BLANK_SIZE 8 /* the filler, for which a segment always has room */
#define FAST_PATH_PROPERTIES_MAX 4096 /* longer properties take the slow path */

/* The fields of a message, borrowed. */
struct fields {
    PyObject *topic, *body, *tags, *keys, *properties, *queue_id, *uniq_key;
    PyObject *flag, *reconsume_times, *prepared_offset, *born_timestamp, *born_host;
    PyObject *sys_flag; /* NULL: 0 */
};

struct prepared {
    struct record record; /* its born_host may be the array below: the struct must stay where it is */
    uint8_t born_host[HOST_V6_SIZE];
    int32_t size;
    struct fast_path_topic *topic; /* borrowed */
    int has_born_timestamp;
};

/* A record that is in the segment without its first eight bytes, until the commit. */
struct written {
    struct result_fields *result;
    struct fast_path_queue *queue;
    uint8_t *at;
    int32_t size, magic;
};

/* ---- fast_path_record.c ---- */

/* 0 unless every field is set and the rarely used ones have their defaults. */
int fast_path_read_fields(const struct fast_path *fast_path, PyObject *message, struct fields *fields);
int fast_path_exact_int32(const struct fast_path *fast_path, PyObject *object, int32_t *value);
/* 0 if the message is not ordinary. Runs no Python code and leaves no error. */
int fast_path_prepare_record(struct fast_path *fast_path, const struct fields *fields,
                             uint8_t properties[FAST_PATH_PROPERTIES_MAX], struct prepared *out);

/* ---- fast_path_put.c ---- */

/* Whether a condition disables the fast path. */
int fast_path_is_kept_away(const struct fast_path *fast_path);
/* -1 with the error of an injected clock. */
int fast_path_now_ms(const struct fast_path *fast_path, int64_t *now);
/* 1: the queue's offset is loaded; 0: not ordinary; -1: an error. May run Python code. */
int fast_path_load_queue(struct fast_path *fast_path, const struct fields *fields);
/*
 * Writes the record, which must fit, at the end of the log and of its queue, and fills `written` and its result. -1: an
 * error, nothing has happened. Runs no Python code, and none may run until fast_path_commit().
 */
int fast_path_write(struct fast_path *fast_path, struct prepared *prepared, struct fast_path_queue *queue,
                    int64_t time_ms, PyObject *topic, struct written *written);
/* The commit point: the records get their first eight bytes, and other processes see the end of the log. */
void fast_path_commit(const struct fast_path *fast_path, const struct written *written, Py_ssize_t count);
/* Notifies after a put; an error here does not undo it. May run Python code. */
void fast_path_notify(struct fast_path *fast_path);

#endif
