/* The base class of put results: C numbers, converted to Python's when an attribute is read. */
#ifndef FLIGHTLOG_RESULT_FIELDS_H
#define FLIGHTLOG_RESULT_FIELDS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* The names are those of the Python attributes. A NULL object reads as None. */
struct result_fields {
    PyObject_HEAD
    PyObject *status, *topic, *store_host_raw;
    long long queue_id, queue_offset, physical_offset, size, store_timestamp_ms;
};

/* Adds the type to the module as ResultFields. */
int add_result_fields_type(PyObject *module);

/* Whether the objects of a type begin with struct result_fields. */
int has_result_fields(PyTypeObject *type);

#endif
