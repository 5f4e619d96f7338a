/*
 * A class with slots, defined in C: Python code uses the slots like any others, and the fast path reads them as members
 * of a struct.
 */
#include "message_fields.h"

#include <stddef.h>
#include <structmember.h>

#include "heap_type.h"

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

int has_message_fields(PyTypeObject *type) { return is_made_from(type, (destructor)dealloc); }

#define NAME(name) #name,
static const char *const slot_names[] = {MESSAGE_FIELDS(NAME) NULL};

int add_message_fields_type(PyObject *module) { return add_type(module, &spec, slot_names); }
