/* The module's types: how one is added, and how a type that was made from one is recognised. */
#ifndef FLIGHTLOG_HEAP_TYPE_H
#define FLIGHTLOG_HEAP_TYPE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

/*
 * Make the type of `spec` and add it to the module. `slots`, unless NULL, becomes its `__slots__`: names that end with a
 * NULL. Returns -1 with an error set.
 */
int add_type(PyObject *module, PyType_Spec *spec, const char *const *slots);

/* Whether a type is the one with this dealloc, or a subclass of it: its objects begin with that type's struct. */
int is_made_from(PyTypeObject *type, destructor dealloc);

#endif
