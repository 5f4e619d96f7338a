#include "heap_type.h"

/* With `__slots__`, a subclass makes no slots of these names again, and copies and pickles contain them. */
static int set_slots(PyObject *type, const char *const *slots) {
    Py_ssize_t count = 0;
    while (slots[count] != NULL) count++;
    PyObject *const names = PyTuple_New(count);
    int result = names == NULL ? -1 : 0;
    for (Py_ssize_t i = 0; result == 0 && i < count; i++) {
        PyObject *const name = PyUnicode_FromString(slots[i]);
        result = name == NULL ? -1 : PyTuple_SetItem(names, i, name);
    }
    if (result == 0) result = PyObject_SetAttrString(type, "__slots__", names);
    Py_XDECREF(names);
    return result;
}

int add_type(PyObject *module, PyType_Spec *spec, const char *const *slots) {
    PyObject *const type = PyType_FromModuleAndSpec(module, spec, NULL);
    if (type == NULL) return -1;
    int result = slots != NULL ? set_slots(type, slots) : 0;
    if (result == 0) result = PyModule_AddType(module, (PyTypeObject *)type);
    Py_DECREF(type);
    return result;
}

int is_made_from(PyTypeObject *type, destructor dealloc) {
    /* Not by the address of the type: every interpreter's module has its own type, all of the same struct. */
    for (; type != NULL; type = PyType_GetSlot(type, Py_tp_base)) {
        if (PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE) &&
            PyType_GetSlot(type, Py_tp_dealloc) == (void *)dealloc) {
            return 1;
        }
    }
    return 0;
}
