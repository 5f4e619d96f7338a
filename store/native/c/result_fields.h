/* The base of the results of puts: plain numbers, of which Python's are made when they are asked for. */
#ifndef FLIGHTLOG_RESULT_FIELDS_H
#define FLIGHTLOG_RESULT_FIELDS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* What Python calls them, too. An object that is NULL reads as None. */
struct result_fields {
    PyObject_HEAD
    PyObject *status, *topic, *store_host_raw;
    long long queue_id, queue_offset, physical_offset, size, store_timestamp_ms;
};

/* The type, as the module's ResultFields. */
int add_result_fields_type(PyObject *module);

/* Whether the objects of a type begin as struct result_fields does. */
int has_result_fields(PyTypeObject *type);

#endif
