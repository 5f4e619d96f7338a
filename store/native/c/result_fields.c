/*
 * Every put creates a result, and most results are dropped unread. A struct is one allocation; a tuple would be one
 * more for each number. The type needs no garbage collection: an enum member, str and bytes cannot form a reference
 * cycle.
 */
#include "result_fields.h"

#include <stddef.h>
#include <structmember.h>

#include "heap_type.h"

static void dealloc(struct result_fields *self) {
    PyTypeObject *type = Py_TYPE((PyObject *)self);
    Py_XDECREF(self->status);
    Py_XDECREF(self->topic);
    Py_XDECREF(self->store_host_raw);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

#define OBJECT(name) {#name, T_OBJECT, offsetof(struct result_fields, name), 0, NULL}
#define NUMBER(name) {#name, T_LONGLONG, offsetof(struct result_fields, name), 0, NULL}
static PyMemberDef members[] = {
    OBJECT(status), OBJECT(topic), NUMBER(queue_id), NUMBER(queue_offset), NUMBER(physical_offset), NUMBER(size),
    NUMBER(store_timestamp_ms), OBJECT(store_host_raw), {NULL, 0, 0, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_dealloc, dealloc},
    {Py_tp_members, members},
    {Py_tp_doc, "The fields of a put's result; pure/results.py does the same in Python."},
    {0, NULL},
};

static PyType_Spec spec = {
    .name = "flightlog.store.native._kernel.ResultFields",
    .basicsize = sizeof(struct result_fields),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .slots = slots,
};

int has_result_fields(PyTypeObject *type) { return is_made_from(type, (destructor)dealloc); }

int add_result_fields_type(PyObject *module) { return add_type(module, &spec, NULL); }
