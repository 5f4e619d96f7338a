/* The functions of the kernel that make messages: their Python side. */
#ifndef FLIGHTLOG_MODULE_MESSAGES_H
#define FLIGHTLOG_MODULE_MESSAGES_H

#include "arguments.h"

PyObject *py_messages(PyObject *module, PyObject *const *args, Py_ssize_t count);
PyObject *py_entry_rows(PyObject *module, PyObject *const *args, Py_ssize_t count);
PyObject *py_decode_properties(PyObject *module, PyObject *raw);

#endif
