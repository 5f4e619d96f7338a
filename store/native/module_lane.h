/* The type Lane of the kernel. */
#ifndef FLIGHTLOG_MODULE_LANE_H
#define FLIGHTLOG_MODULE_LANE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* Adds it to the module. */
int add_lane_type(PyObject *module);

#endif
