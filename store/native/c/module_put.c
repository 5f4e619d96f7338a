/* `put` of a store as a C method, so that an ordinary put runs no Python frame. pure/put.py is its reference. */
#include "module.h"

#include <stddef.h>
#include <structmember.h>

#include "fast_path.h"
#include "heap_type.h"

struct put_calls {
    PyObject_HEAD
    PyObject *fast_path; /* NULL or None: every put takes the slow path */
};

/* The docstring of `put`; pure/put.py has the same text. */
static const char put_doc[] =
    "put($self, message)\n--\n\n"
    "Append one message, to a topic that is made if need be (see the setting `auto_create_topics`).\n"
    "\n"
    "Under async flush it is in the page cache when this returns: it survives this process. Under sync flush it is on\n"
    "the disk, or the status is FLUSH_DISK_TIMEOUT: stored, not yet known to be durable; never put it again. One that\n"
    "does not wait (`wait_store_ok=False`) is put as under async flush, except that its sync follows at once and that\n"
    "it cannot be read before.\n"
    "\n"
    "Raises InvalidMessageError (nothing stored; also a TopicNotFoundError, QueueNotFoundError or\n"
    "TopicPermissionError), DiskFullError (nothing stored), SyncFailedError and\n"
    "StorePoisonedError (stored at most in memory, not acknowledged), StoreClosedError, ForkedStoreError.";

/* The message, a positional or keyword argument; NULL with a TypeError set. */
static PyObject *message_of(PyObject *const *arguments, Py_ssize_t count, PyObject *names) {
    const Py_ssize_t named = names == NULL ? 0 : PyTuple_Size(names);
    if (count + named != 1) {
        PyErr_Format(PyExc_TypeError, "put() takes one message, got %zd arguments", count + named);
        return NULL;
    }
    if (named && PyUnicode_CompareWithASCIIString(PyTuple_GetItem(names, 0), "message") != 0) {
        PyErr_Format(PyExc_TypeError, "put() got an unexpected keyword argument %R", PyTuple_GetItem(names, 0));
        return NULL;
    }
    return arguments[0];
}

static PyObject *py_put(struct put_calls *self, PyObject *const *arguments, Py_ssize_t count, PyObject *names) {
    PyObject *const message = count == 1 && names == NULL ? arguments[0] : message_of(arguments, count, names);
    if (message == NULL) return NULL;
    PyObject *const fast_path = self->fast_path;
    if (fast_path != NULL && fast_path != Py_None) {
        Py_INCREF(fast_path); /* a put may run other code, which may replace it */
        PyObject *result = is_fast_path(fast_path) ? fast_path_put((struct fast_path *)fast_path, message)
                                         : PyObject_CallMethod(fast_path, "put", "(O)", message);
        Py_DECREF(fast_path);
        if (result != Py_None) return result;
        Py_DECREF(result);
    }
    return PyObject_CallMethod((PyObject *)self, "_put_slow", "(O)", message);
}

static int put_calls_clear(struct put_calls *self) {
    Py_CLEAR(self->fast_path);
    return 0;
}

static int put_calls_traverse(struct put_calls *self, visitproc visit, void *arg) {
    Py_VISIT(Py_TYPE((PyObject *)self));
    Py_VISIT(self->fast_path);
    return 0;
}

static void put_calls_dealloc(struct put_calls *self) {
    PyTypeObject *type = Py_TYPE((PyObject *)self);
    PyObject_GC_UnTrack(self);
    put_calls_clear(self);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

static PyMethodDef put_calls_methods[] = {
    {"put", (PyCFunction)(void (*)(void))py_put, METH_FASTCALL | METH_KEYWORDS, put_doc},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef put_calls_members[] = {
    {"_put_fast_path", T_OBJECT, offsetof(struct put_calls, fast_path), 0,
     "The fast path of ordinary puts; None: there is none."},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot put_calls_slots[] = {
    {Py_tp_dealloc, put_calls_dealloc},
    {Py_tp_traverse, put_calls_traverse},
    {Py_tp_clear, put_calls_clear},
    {Py_tp_methods, put_calls_methods},
    {Py_tp_members, put_calls_members},
    {Py_tp_doc, "What a store that takes messages is made from; pure/put.py does the same in Python."},
    {0, NULL},
};

static PyType_Spec put_calls_spec = {
    .name = "flightlog.store.native._kernel.OrdinaryPut",
    .basicsize = sizeof(struct put_calls),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .slots = put_calls_slots,
};

int add_put_type(PyObject *module) { return add_type(module, &put_calls_spec, NULL); }
