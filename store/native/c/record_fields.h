/* The base of the messages that a store gives out: the fields of a record, made into objects when they are asked for. */
#ifndef FLIGHTLOG_RECORD_FIELDS_H
#define FLIGHTLOG_RECORD_FIELDS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "messages.h"
#include "record.h"

/*
 * Numbers stand here as such. What is NULL is not made yet, and stands in `rest`; a message that was made field by
 * field has none.
 */
struct record_fields {
    PyObject_HEAD
    PyObject *weak_references;
    PyObject *rest; /* bytes: a whole record without its body */
    PyObject *body, *topic, *batch_index;
    PyObject *properties_raw, *properties, *store_host_raw, *born_host, *store_host;
    PyObject *shared; /* list: what messages of one fetch that have the same hosts have in common; see record_fields.c */
    struct bytes properties_there, store_host_there; /* in `rest` */
    long long size, magic, body_crc, queue_id, flag, queue_offset, physical_offset, sys_flag, born_timestamp_ms,
        store_timestamp_ms, reconsume_times, prepared_transaction_offset;
};

/* The type, as the module's RecordFields. */
int add_record_fields_type(PyObject *module);

/* The hosts of a record before: the next one mostly has the same. */
struct known_hosts {
    PyObject *list; /* NULL: none yet */
    uint8_t born[HOST_V6_SIZE], store[HOST_V6_SIZE];
    size_t born_size, store_size;
};

/*
 * Fills a message of nothing but zeros. Takes the reference to `rest` over, whose fields these are. -1 with an error
 * set; the message can be let go then.
 */
int fill_record_fields(struct record_fields *self, PyObject *rest, const struct fields *fields, PyObject *topic,
                       struct known_hosts *known);

/* Name to value, as a new dict. `shared` is what messages share, or NULL. */
PyObject *pairs_of(struct bytes raw, PyObject *shared);

#endif
