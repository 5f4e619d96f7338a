/* A gate for those who wait for a sync. */
#ifndef FLIGHTLOG_MODULE_GATE_H
#define FLIGHTLOG_MODULE_GATE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* -1 with an error. */
int add_gate_type(PyObject *module);

#endif
