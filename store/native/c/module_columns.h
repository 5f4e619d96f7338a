/* The functions of the kernel that work on columns: their Python side. */
#ifndef FLIGHTLOG_MODULE_COLUMNS_H
#define FLIGHTLOG_MODULE_COLUMNS_H

#include "arguments.h"

PyObject *py_walk_places(PyObject *module, PyObject *const *args, Py_ssize_t count);
PyObject *py_gather(PyObject *module, PyObject *const *args, Py_ssize_t count);
PyObject *py_number_rows(PyObject *module, PyObject *const *args, Py_ssize_t count);
PyObject *py_encode_columns(PyObject *module, PyObject *const *args, Py_ssize_t count);

#endif
