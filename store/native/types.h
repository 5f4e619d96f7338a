/* Types of Python that are made in C. */
#ifndef FLIGHTLOG_TYPES_H
#define FLIGHTLOG_TYPES_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

/*
 * Makes a type and adds it to the module. `slots`, unless it is NULL, ends with NULL: the type says that it is a class
 * with slots of these names, as the reference's. So a class on top of it makes no others, and copies and pickles have
 * them. -1 with an error.
 */
static inline int add_type(PyObject *module, PyType_Spec *spec, const char *const *slots) {
    PyObject *const type = PyType_FromModuleAndSpec(module, spec, NULL);
    PyObject *const names = type != NULL ? PyList_New(0) : NULL;
    int result = names != NULL ? 0 : -1;
    for (; result == 0 && slots != NULL && *slots != NULL; slots++) {
        PyObject *const name = PyUnicode_FromString(*slots);
        result = name != NULL ? PyList_Append(names, name) : -1;
        Py_XDECREF(name);
    }
    if (result == 0 && PyList_Size(names) > 0) {
        PyObject *const tuple = PyList_AsTuple(names);
        result = tuple != NULL ? PyObject_SetAttrString(type, "__slots__", tuple) : -1;
        Py_XDECREF(tuple);
    }
    if (result == 0) result = PyModule_AddType(module, (PyTypeObject *)type);
    Py_XDECREF(names);
    Py_XDECREF(type);
    return result;
}

#endif
