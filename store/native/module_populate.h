/* Pages of a mapping, made present before somebody stores into them. */
#ifndef FLIGHTLOG_MODULE_POPULATE_H
#define FLIGHTLOG_MODULE_POPULATE_H

#include "arguments.h"

PyObject *py_populate(PyObject *module, PyObject *const *args, Py_ssize_t count);

#endif
