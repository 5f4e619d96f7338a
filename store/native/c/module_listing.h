/* The functions of the kernel that fill queues and the key index: their Python side. */
#ifndef FLIGHTLOG_MODULE_LISTING_H
#define FLIGHTLOG_MODULE_LISTING_H

#include "arguments.h"

PyObject *py_list_rows(PyObject *module, PyObject *const *args, Py_ssize_t count);
PyObject *py_link_keys(PyObject *module, PyObject *const *args, Py_ssize_t count);
PyObject *py_set_heads(PyObject *module, PyObject *const *args, Py_ssize_t count);

#endif
