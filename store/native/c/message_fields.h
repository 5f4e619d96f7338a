/* The base class of messages to put, with its fields in a C struct. */
#ifndef FLIGHTLOG_MESSAGE_FIELDS_H
#define FLIGHTLOG_MESSAGE_FIELDS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* The names are those of the Python attributes, in the order of Message's arguments. */
#define MESSAGE_FIELDS(FIELD) \
    FIELD(topic) FIELD(body) FIELD(tags) FIELD(keys) FIELD(properties) FIELD(queue_id) FIELD(flag) FIELD(uniq_key) \
    FIELD(born_timestamp_ms) FIELD(born_host) FIELD(sys_flag) FIELD(reconsume_times) \
    FIELD(prepared_transaction_offset) FIELD(wait_store_ok) FIELD(compress) FIELD(delay_level)

/* A NULL field was not set, or was deleted. */
struct message_fields {
    PyObject_HEAD
#define DECLARE(name) PyObject *name;
    MESSAGE_FIELDS(DECLARE)
#undef DECLARE
};

/* Adds the type to the module as MessageFields. */
int add_message_fields_type(PyObject *module);

/* Whether the objects of a type begin with struct message_fields. */
int has_message_fields(PyTypeObject *type);

#endif
