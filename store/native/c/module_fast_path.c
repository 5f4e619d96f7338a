/* The fast path as a Python type: creation, methods and members. */
#include "module.h"

#include <stddef.h>
#include <structmember.h>

#include "fast_path.h"
#include "heap_type.h"
#include "message_fields.h"

/* ---- life ---- */

static void release_view(Py_buffer *view) {
    if (view->obj != NULL) PyBuffer_Release(view);
}

static int fast_path_clear(struct fast_path *self) {
    release_view(&self->segment);
    release_view(&self->page);
    self->limit = self->base = 0;
    fast_path_queues_clear(&self->queues);
    Py_CLEAR(self->conditions);
    Py_CLEAR(self->message_type);
    Py_CLEAR(self->result_type);
    Py_CLEAR(self->status);
    Py_CLEAR(self->store_host);
    Py_CLEAR(self->special_names);
    Py_CLEAR(self->clock);
    Py_CLEAR(self->notify);
    Py_CLEAR(self->note);
    Py_CLEAR(self->zero);
    return 0;
}

static int fast_path_traverse(struct fast_path *self, visitproc visit, void *arg) {
    Py_VISIT(Py_TYPE((PyObject *)self));
    Py_VISIT(self->queues.offsets);
    Py_VISIT(self->queues.topics);
    Py_VISIT(self->conditions);
    Py_VISIT(self->message_type);
    Py_VISIT(self->result_type);
    Py_VISIT(self->status);
    Py_VISIT(self->special_names);
    Py_VISIT(self->clock);
    Py_VISIT(self->notify);
    Py_VISIT(self->note);
    return 0;
}

static void fast_path_dealloc(struct fast_path *self) {
    PyTypeObject *type = Py_TYPE((PyObject *)self);
    PyObject_GC_UnTrack(self);
    fast_path_clear(self);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

static PyObject *fast_path_new(PyTypeObject *type, PyObject *arguments, PyObject *names) {
    PyObject *conditions, *offsets, *message_type, *result_type, *status, *store_host, *special_names, *clock, *page;
    PyObject *lock, *publish, *prepare; /* the reference's */
    long long max_body_size;
    Py_ssize_t appended, visible;
    if (names != NULL && PyDict_Size(names) != 0) {
        PyErr_SetString(PyExc_TypeError, "FastPath() takes no keyword arguments");
        return NULL;
    }
    if (!PyArg_ParseTuple(arguments, "O!O!O!O!OSOLOOnnOOO", &PyDict_Type, &conditions, &PyDict_Type, &offsets,
                          &PyType_Type, &message_type, &PyType_Type, &result_type, &status, &store_host,
                          &special_names, &max_body_size, &clock, &page, &appended, &visible, &lock, &publish, &prepare)) {
        return NULL;
    }
    if (!PyAnySet_Check(special_names)) {
        PyErr_SetString(PyExc_TypeError, "special_names must be a set");
        return NULL;
    }
    if (!has_message_fields((PyTypeObject *)message_type) || !has_result_fields((PyTypeObject *)result_type)) {
        PyErr_SetString(PyExc_TypeError, "message_type must be made from this kernel's MessageFields, result_type from "
                                         "its ResultFields");
        return NULL;
    }
    const allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    struct fast_path *self = (struct fast_path *)allocate(type, 0);
    if (self == NULL) return NULL;
    if ((self->zero = PyLong_FromLong(0)) == NULL) goto failed;
    if (fast_path_queues_init(&self->queues, offsets) < 0) goto failed;
    self->conditions = Py_NewRef(conditions);
    self->message_type = (PyTypeObject *)Py_NewRef(message_type);
    self->result_type = (PyTypeObject *)Py_NewRef(result_type);
    self->status = Py_NewRef(status);
    self->store_host = Py_NewRef(store_host);
    self->host = (struct bytes){(const uint8_t *)PyBytes_AsString(store_host), (size_t)PyBytes_Size(store_host)};
    self->allocate_result = (allocfunc)PyType_GetSlot(self->result_type, Py_tp_alloc);
    self->special_names = Py_NewRef(special_names);
    self->clock = Py_NewRef(clock);
    self->max_body_size = max_body_size < GIL_RELEASE_SIZE ? max_body_size : GIL_RELEASE_SIZE - 1;
    self->is_armed = 1;
    self->words[0] = appended < 0 ? -1 : appended * 8;
    self->words[1] = visible < 0 ? -1 : visible * 8;
    if (PyObject_GetBuffer(page, &self->page, PyBUF_WRITABLE) < 0) goto failed;
    if ((appended + 1) * 8 > self->page.len || (visible + 1) * 8 > self->page.len ||
        (uintptr_t)self->page.buf % 8 != 0) {
        PyErr_SetString(PyExc_ValueError, "the page has no such words");
        goto failed;
    }
    return (PyObject *)self;
failed:
    Py_DECREF(self);
    return NULL;
}

/* The type of fast paths cannot be subclassed, so no other type has this dealloc. */
int is_fast_path(PyObject *object) {
    return PyType_GetSlot(Py_TYPE(object), Py_tp_dealloc) == (void *)fast_path_dealloc;
}

/* ---- methods ---- */

static PyObject *py_open(struct fast_path *self, PyObject *const *arguments, Py_ssize_t count) {
    enum { MAPPING, BASE, ALLOCATED, ARGUMENTS };
    int64_t base, allocated;
    if (check_count("open", count, ARGUMENTS) < 0 || to_int64(arguments[BASE], "base", &base) < 0 ||
        to_int64(arguments[ALLOCATED], "allocated", &allocated) < 0) {
        return NULL;
    }
    if (self->segment.obj != arguments[MAPPING]) {
        Py_buffer view;
        if (PyObject_GetBuffer(arguments[MAPPING], &view, PyBUF_WRITABLE) < 0) return NULL;
        self->limit = self->base = 0;
        release_view(&self->segment);
        self->segment = view;
    }
    if (base < 0 || allocated < 0 || allocated > self->segment.len || base > INT64_MAX - allocated) {
        self->limit = self->base = 0;
        PyErr_SetString(PyExc_ValueError, "base and allocated must lie in the segment");
        return NULL;
    }
    self->base = base;
    self->limit = base + allocated;
    return Py_NewRef(Py_None);
}

static PyObject *py_close(struct fast_path *self, PyObject *Py_UNUSED(ignored)) {
    self->limit = self->base = 0;
    self->words[0] = self->words[1] = -1;
    release_view(&self->segment);
    release_view(&self->page);
    return Py_NewRef(Py_None);
}

static PyObject *py_write_back_offsets(struct fast_path *self, PyObject *Py_UNUSED(ignored)) {
    if (fast_path_write_back_offsets(&self->queues) < 0) return NULL;
    self->queues.epoch++;
    return Py_NewRef(Py_None);
}

static PyObject *py_register_topic(struct fast_path *self, PyObject *const *arguments, Py_ssize_t count) {
    enum { NAME, RAW, QUEUE_COUNT, ARGUMENTS };
    int64_t queue_count;
    if (check_count("register_topic", count, ARGUMENTS) < 0 ||
        to_int64(arguments[QUEUE_COUNT], "queue_count", &queue_count) < 0) {
        return NULL;
    }
    if (!PyUnicode_CheckExact(arguments[NAME]) || !PyBytes_CheckExact(arguments[RAW])) {
        PyErr_SetString(PyExc_TypeError, "register_topic() takes a topic as text and as bytes");
        return NULL;
    }
    if (fast_path_register_topic(&self->queues, arguments[NAME], arguments[RAW], queue_count) < 0) return NULL;
    return Py_NewRef(Py_None);
}

static PyObject *py_unregister_topic(struct fast_path *self, PyObject *name) {
    if (fast_path_unregister_topic(&self->queues, name) < 0) return NULL;
    return Py_NewRef(Py_None);
}

#define FAST(function) (PyCFunction)(void (*)(void))(function)

static PyMethodDef fast_path_methods[] = {
    {"put", FAST(fast_path_put), METH_O, "put(message, /)\n--\n\nAppend it; its PutResult, or None."},
    {"append", FAST(fast_path_append), METH_FASTCALL,
     "append(topic, queue_id, body, tags, keys, properties, uniq_key, flag, born_timestamp_ms, /)\n--\n\nThe same."},
    {"put_many", FAST(fast_path_put_many), METH_FASTCALL,
     "put_many(messages, first, /)\n--\n\nAppend as many as there is room for; their PutResults, or None."},
    {"open", FAST(py_open), METH_FASTCALL, "open(mapping, base, allocated, /)\n--\n\nAppend here from now on."},
    {"close", FAST(py_close), METH_NOARGS, "close()\n--\n\nLet go of the segment and the page."},
    {"write_back_offsets", FAST(py_write_back_offsets), METH_NOARGS,
     "write_back_offsets()\n--\n\nHave every queue offset in the dict."},
    {"register_topic", FAST(py_register_topic), METH_FASTCALL,
     "register_topic(topic, raw, queue_count, /)\n--\n\nTake this topic's messages."},
    {"unregister_topic", FAST(py_unregister_topic), METH_O, "unregister_topic(topic, /)\n--\n\nTake them no more."},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef fast_path_members[] = {
    {"end", T_LONGLONG, offsetof(struct fast_path, end), 0, NULL},
    {"last_store_timestamp_ms", T_LONGLONG, offsetof(struct fast_path, last_store_timestamp_ms), 0, NULL},
    {"appended_records", T_LONGLONG, offsetof(struct fast_path, appended_records), 0, NULL},
    {"taken", T_LONGLONG, offsetof(struct fast_path, taken), READONLY, NULL},
    {"is_armed", T_BOOL, offsetof(struct fast_path, is_armed), 0, NULL},
    {"notify", T_OBJECT, offsetof(struct fast_path, notify), 0, NULL},
    {"note", T_OBJECT, offsetof(struct fast_path, note), 0, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot fast_path_slots[] = {
    {Py_tp_new, fast_path_new},
    {Py_tp_dealloc, fast_path_dealloc},
    {Py_tp_traverse, fast_path_traverse},
    {Py_tp_clear, fast_path_clear},
    {Py_tp_methods, fast_path_methods},
    {Py_tp_members, fast_path_members},
    {Py_tp_doc, "The ordinary put in one call; pure/fast_path.py does the same in Python."},
    {0, NULL},
};

static PyType_Spec fast_path_spec = {
    .name = "flightlog.store.native._kernel.FastPath",
    .basicsize = sizeof(struct fast_path),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = fast_path_slots,
};

int add_fast_path_type(PyObject *module) { return add_type(module, &fast_path_spec, NULL); }
