/*
 * A class with slots, made in C: Python code uses them as any others, and the fast path reads them as members of a
 * struct.
 */
#include "message_fields.h"

#include <stddef.h>
#include <structmember.h>

static int clear(struct message_fields *self) {
#define CLEAR(name) Py_CLEAR(self->name);
    MESSAGE_FIELDS(CLEAR)
    return 0;
}

static int traverse(struct message_fields *self, visitproc visit, void *arg) {
    Py_VISIT(Py_TYPE((PyObject *)self));
#define VISIT(name) Py_VISIT(self->name);
    MESSAGE_FIELDS(VISIT)
    return 0;
}

static void dealloc(struct message_fields *self) {
    PyTypeObject *type = Py_TYPE((PyObject *)self);
    PyObject_GC_UnTrack(self);
    clear(self);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

#define MEMBER(name) {#name, T_OBJECT_EX, offsetof(struct message_fields, name), 0, NULL},
static PyMemberDef members[] = {MESSAGE_FIELDS(MEMBER){NULL, 0, 0, 0, NULL}};

static PyType_Slot slots[] = {
    {Py_tp_dealloc, dealloc},
    {Py_tp_traverse, traverse},
    {Py_tp_clear, clear},
    {Py_tp_members, members},
    {Py_tp_doc, "The fields of a message to put; pure/fields.py does the same in Python."},
    {0, NULL},
};

static PyType_Spec spec = {
    .name = "flightlog.store.native._kernel.MessageFields",
    .basicsize = sizeof(struct message_fields),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .slots = slots,
};

int has_message_fields(PyTypeObject *type) {
    /* Another interpreter's module has a type of its own, made of the same struct: ask for what makes it one. */
    for (; type != NULL; type = PyType_GetSlot(type, Py_tp_base)) {
        if (PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE) && PyType_GetSlot(type, Py_tp_dealloc) == (void *)dealloc) {
            return 1;
        }
    }
    return 0;
}

/* So that a class on top of it makes no slots of these names, and copies and pickles have them. */
static int name_slots(PyObject *type) {
    PyObject *const names = PyTuple_New(sizeof members / sizeof members[0] - 1);
    int result = names == NULL ? -1 : 0;
    for (Py_ssize_t i = 0; result == 0 && members[i].name != NULL; i++) {
        PyObject *const name = PyUnicode_FromString(members[i].name);
        result = name == NULL ? -1 : PyTuple_SetItem(names, i, name);
    }
    if (result == 0) result = PyObject_SetAttrString(type, "__slots__", names);
    Py_XDECREF(names);
    return result;
}

int add_message_fields_type(PyObject *module) {
    PyObject *type = PyType_FromModuleAndSpec(module, &spec, NULL);
    if (type == NULL) return -1;
    int result = name_slots(type);
    if (result == 0) result = PyModule_AddType(module, (PyTypeObject *)type);
    Py_DECREF(type);
    return result;
}
