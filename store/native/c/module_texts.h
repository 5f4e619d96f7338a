/* The part of the module that makes property texts. */
#ifndef FLIGHTLOG_MODULE_TEXTS_H
#define FLIGHTLOG_MODULE_TEXTS_H

#include "arguments.h"

PyObject *py_property_texts(PyObject *module, PyObject *const *args, Py_ssize_t count);

#endif
