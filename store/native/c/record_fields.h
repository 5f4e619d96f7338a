/* The base class of messages read from a store: the fields of a record, decoded on first use. */
#ifndef FLIGHTLOG_RECORD_FIELDS_H
#define FLIGHTLOG_RECORD_FIELDS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "messages.h"
#include "record.h"

/*
 * A NULL object has not been decoded from `rest` yet. A message that was created field by field has no `rest`.
 */
struct record_fields {
    PyObject_HEAD
    PyObject *weak_references;
    PyObject *rest; /* bytes: a whole record without its body */
    PyObject *body, *topic, *batch_index;
    PyObject *properties_raw, *properties, *store_host_raw, *born_host, *store_host;
    PyObject *shared; /* list: objects shared by messages of one read with the same hosts; see record_fields.c */
    struct bytes properties_there, store_host_there; /* in `rest` */
    long long size, magic, body_crc, queue_id, flag, queue_offset, physical_offset, sys_flag, born_timestamp_ms,
        store_timestamp_ms, reconsume_times, prepared_transaction_offset;
};

/* Adds the type to the module as RecordFields. */
int add_record_fields_type(PyObject *module);

/* The hosts of the previous record: the next one usually has the same. */
struct known_hosts {
    PyObject *list; /* NULL: none yet */
    uint8_t born[HOST_V6_SIZE], store[HOST_V6_SIZE];
    size_t born_size, store_size;
};

/*
 * Fills a zeroed message. Steals the reference to `rest`, whose fields these are. -1 with an error set; the message can
 * then be deallocated.
 */
int fill_record_fields(struct record_fields *self, PyObject *rest, const struct fields *fields, PyObject *topic,
                       struct known_hosts *known);

/* The properties as a new dict. `shared` is the shared list, or NULL. */
PyObject *pairs_of(struct bytes raw, PyObject *shared);

#endif
