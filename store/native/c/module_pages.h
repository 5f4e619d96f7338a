/* Pages of a mapping that come before somebody stores into them, go once nobody does any more, and are synced. */
#ifndef FLIGHTLOG_MODULE_PAGES_H
#define FLIGHTLOG_MODULE_PAGES_H

#include "arguments.h"

PyObject *py_populate(PyObject *module, PyObject *const *args, Py_ssize_t count);
PyObject *py_release_pages(PyObject *module, PyObject *const *args, Py_ssize_t count);
PyObject *py_sync_pages(PyObject *module, PyObject *const *args, Py_ssize_t count);

#endif
