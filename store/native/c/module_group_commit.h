/* A group commit for those who wait for a sync. */
#ifndef FLIGHTLOG_MODULE_GROUP_COMMIT_H
#define FLIGHTLOG_MODULE_GROUP_COMMIT_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* -1 with an error. */
int add_group_commit_type(PyObject *module);

#endif
