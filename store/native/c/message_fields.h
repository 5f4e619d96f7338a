/* The base of the messages that are put: where each field lies is known here, and needs no search. */
#ifndef FLIGHTLOG_MESSAGE_FIELDS_H
#define FLIGHTLOG_MESSAGE_FIELDS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* What Python calls them, too, in the order of a Message's arguments. */
#define MESSAGE_FIELDS(FIELD) \
    FIELD(topic) FIELD(body) FIELD(tags) FIELD(keys) FIELD(properties) FIELD(queue_id) FIELD(flag) FIELD(uniq_key) \
    FIELD(born_timestamp_ms) FIELD(born_host) FIELD(sys_flag) FIELD(reconsume_times) \
    FIELD(prepared_transaction_offset) FIELD(wait_store_ok) FIELD(compress) FIELD(delay_level)

/* A field that is NULL was not set, or deleted. */
struct message_fields {
    PyObject_HEAD
#define DECLARE(name) PyObject *name;
    MESSAGE_FIELDS(DECLARE)
#undef DECLARE
};

/* The type, as the module's MessageFields. */
int add_message_fields_type(PyObject *module);

/* Whether the objects of a type begin as struct message_fields does. */
int has_message_fields(PyTypeObject *type);

#endif
