/* The type FastPath of the kernel. */
#ifndef FLIGHTLOG_MODULE_FAST_PATH_H
#define FLIGHTLOG_MODULE_FAST_PATH_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* Adds it to the module. */
int add_fast_path_type(PyObject *module);

#endif
