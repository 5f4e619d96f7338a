/* The type OrdinaryPut of the kernel. */
#ifndef FLIGHTLOG_MODULE_PUT_H
#define FLIGHTLOG_MODULE_PUT_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* Adds it to the module. */
int add_put_type(PyObject *module);

#endif
