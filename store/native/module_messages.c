/* The messages' part of the module: arguments in, one of messages.h / walk.h, Python objects out. */
#include "module_messages.h"

#include "byteorder.h"
#include "columns.h"
#include "messages.h"
#include "record.h"
#include "walk.h"

/* Whose entries these are, and what is made of them. */
struct wanted {
    int32_t queue_id;
    struct bytes topic;
    PyTypeObject *type;
    allocfunc allocate;
    PyObject *body_name, *rest_name;
};

/* Set without asking the object: a message is frozen. Takes the reference to the value over. */
static int set_field(PyObject *message, PyObject *name, PyObject *value) {
    if (value == NULL) return -1;
    const int result = PyObject_GenericSetAttr(message, name, value);
    Py_DECREF(value);
    return result;
}

/* ---- messages ---- */

/* The bytes of a record in front of its body and behind it. Its lengths were checked, but not those in the copy. */
static PyObject *copy_rest(const uint8_t *log, const struct frame_row *row) {
    const size_t size = little32(row->size), body_size = little32(row->body_size);
    const size_t before_body = (size_t)(little64(row->body_position) - little64(row->position));
    PyObject *rest = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(size - body_size));
    if (rest == NULL) return NULL;
    char *const to = PyBytes_AsString(rest);
    const uint8_t *const from = log + little64(row->position);
    memcpy(to, from, before_body);
    memcpy(to + before_body, from + before_body + body_size, size - body_size - before_body);
    return rest;
}

/* Whether this is the message that entry `queue_offset` stands for: as read from the copy, which nobody changes. */
static int is_wanted(PyObject *rest, const struct frame_row *row, const struct wanted *wanted, int64_t queue_offset) {
    const struct bytes bytes = {(const uint8_t *)PyBytes_AsString(rest), (size_t)PyBytes_Size(rest)};
    struct fields fields;
    if (!fields_of(bytes, &fields) || (uint32_t)fields.body_size != little32(row->body_size)) return 0;
    return (uint64_t)fields.physical_offset == little64(row->physical_offset) &&
           fields.queue_offset == queue_offset && fields.queue_id == wanted->queue_id &&
           !(fields.sys_flag & INNER_BATCH) && fields.topic.size == wanted->topic.size &&
           (fields.topic.size == 0 || memcmp(fields.topic.data, wanted->topic.data, fields.topic.size) == 0);
}

/* Adds the message to the list: 1. It is another one, or damaged: 0. An error is set: -1. */
static int add_message(PyObject *list, const uint8_t *log, const struct frame_row *row, const struct wanted *wanted,
                       int64_t queue_offset) {
    if (!row->crc_ok) return 0;
    PyObject *rest = copy_rest(log, row);
    if (rest == NULL) return -1;
    if (!is_wanted(rest, row, wanted, queue_offset)) {
        Py_DECREF(rest);
        return 0;
    }
    PyObject *message = wanted->allocate(wanted->type, 0);
    if (message == NULL) {
        Py_DECREF(rest);
        return -1;
    }
    PyObject *body = PyBytes_FromStringAndSize((const char *)log + little64(row->body_position),
                                               (Py_ssize_t)little32(row->body_size));
    int result = set_field(message, wanted->rest_name, rest);
    if (result == 0) result = set_field(message, wanted->body_name, body);
    else Py_XDECREF(body);
    if (result == 0) result = PyList_Append(list, message);
    Py_DECREF(message);
    return result == 0 ? 1 : -1;
}

/* `memory` has room for two columns of int64 and for the rows of all entries. */
static PyObject *read_entries(const struct input *inputs, size_t count, int64_t physical_base, int64_t max_size,
                              const struct wanted *wanted, uint8_t *memory) {
    uint8_t *const starts = memory, *const sizes = starts + 8 * count, *const rows = sizes + 8 * count;
    const struct ranges places = {inputs[0].bytes, starts, sizes};
    size_t filled = 0;
    Py_BEGIN_ALLOW_THREADS /* however few bytes they are: they may have to come from the disk */
    int64_t size;
    const size_t there = places_of(inputs[1].bytes.data, count, physical_base, max_size, starts, sizes, &size);
    walk_places(&places, there, physical_base, 1, rows, there, &filled);
    Py_END_ALLOW_THREADS
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list != NULL && i < filled; i++) {
        struct frame_row row;
        memcpy(&row, rows + i * sizeof row, sizeof row);
        const int added = add_message(list, inputs[0].bytes.data, &row, wanted,
                                      column64_once(inputs[2].bytes.data, i));
        if (added < 0) Py_CLEAR(list);
        if (added == 0) break;
    }
    return list;
}

PyObject *py_messages(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count) {
    enum { BUFFER, UNITS, QUEUE_OFFSETS, TOPIC, PHYSICAL_BASE, QUEUE_ID, MAX_SIZE, TYPE, ARGUMENTS };
    enum { BUFFERS = PHYSICAL_BASE };
    int64_t physical_base, max_size;
    struct wanted wanted;
    if (check_count("messages", count, ARGUMENTS) < 0 ||
        to_int64(args[PHYSICAL_BASE], "physical_base", &physical_base) < 0 ||
        to_int32(args[QUEUE_ID], "queue_id", &wanted.queue_id) < 0 ||
        to_int64(args[MAX_SIZE], "max_size", &max_size) < 0) {
        return NULL;
    }
    if (!PyType_Check(args[TYPE])) {
        PyErr_SetString(PyExc_TypeError, "message_type is no type");
        return NULL;
    }
    wanted.type = (PyTypeObject *)args[TYPE];
    wanted.allocate = (allocfunc)PyType_GetSlot(wanted.type, Py_tp_alloc);
    struct input inputs[BUFFERS];
    for (int i = 0; i < BUFFERS; i++) {
        if (to_bytes(args[i], &inputs[i]) < 0) {
            release(inputs, i);
            return NULL;
        }
    }
    PyObject *result = NULL;
    const size_t entries = inputs[UNITS].bytes.size / UNIT_SIZE;
    if (inputs[UNITS].bytes.size % UNIT_SIZE != 0 || inputs[QUEUE_OFFSETS].bytes.size != 8 * entries) {
        PyErr_SetString(PyExc_ValueError, "units must be whole entries, and queue_offsets an int64 column as long");
    } else {
        wanted.topic = inputs[TOPIC].bytes;
        wanted.body_name = PyUnicode_InternFromString("body");
        wanted.rest_name = PyUnicode_InternFromString("_rest");
        uint8_t *memory = PyMem_Malloc(entries * (2 * 8 + sizeof(struct frame_row)));
        if (memory == NULL) PyErr_NoMemory();
        if (memory != NULL && wanted.body_name != NULL && wanted.rest_name != NULL) {
            result = read_entries(inputs, entries, physical_base, max_size, &wanted, memory);
        }
        PyMem_Free(memory);
        Py_XDECREF(wanted.body_name);
        Py_XDECREF(wanted.rest_name);
    }
    release(inputs, BUFFERS);
    return result;
}

/* ---- rows ---- */

PyObject *py_entry_rows(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count) {
    enum { BUFFER, UNITS, QUEUE_OFFSETS, TOPIC, ROWS, BODIES, PHYSICAL_BASE, QUEUE_ID, MAX_SIZE, ARGUMENTS };
    enum { BUFFERS = PHYSICAL_BASE };
    struct entries entries;
    if (check_count("entry_rows", count, ARGUMENTS) < 0 ||
        to_int64(args[PHYSICAL_BASE], "physical_base", &entries.physical_base) < 0 ||
        to_int32(args[QUEUE_ID], "queue_id", &entries.queue_id) < 0 ||
        to_int64(args[MAX_SIZE], "max_size", &entries.max_size) < 0) {
        return NULL;
    }
    struct input inputs[BUFFERS];
    const int has_bodies = args[BODIES] != Py_None;
    const int buffers = has_bodies ? BUFFERS : BODIES;
    for (int i = 0; i < buffers; i++) {
        const int failed = i < ROWS ? to_bytes(args[i], &inputs[i])
                                    : to_writable(args[i], i == ROWS ? "rows" : "bodies", &inputs[i]);
        if (failed < 0) {
            release(inputs, i);
            return NULL;
        }
    }
    PyObject *result = NULL;
    entries.units = inputs[UNITS].bytes.data;
    entries.queue_offsets = inputs[QUEUE_OFFSETS].bytes.data;
    entries.count = inputs[UNITS].bytes.size / UNIT_SIZE;
    entries.topic = inputs[TOPIC].bytes;
    const struct bytes rows = inputs[ROWS].bytes;
    static uint8_t nowhere;
    uint8_t *bodies = NULL; /* an empty buffer may come without an address */
    if (has_bodies) bodies = inputs[BODIES].bytes.size > 0 ? inputs[BODIES].view.buf : &nowhere;
    int shares = 0;
    for (int out = ROWS; out < buffers; out++) {
        for (int i = 0; i < out; i++) shares |= touches(inputs[out].bytes.data, inputs[out].bytes.size, inputs[i].bytes);
    }
    if (inputs[UNITS].bytes.size % UNIT_SIZE != 0 || inputs[QUEUE_OFFSETS].bytes.size != 8 * entries.count) {
        PyErr_SetString(PyExc_ValueError, "units must be whole entries, and queue_offsets an int64 column as long");
    } else if (rows.size % sizeof(struct frame_row) != 0) {
        PyErr_Format(PyExc_ValueError, "rows has %zu bytes, which is no multiple of FRAME_DTYPE.itemsize (%zu)",
                     rows.size, sizeof(struct frame_row));
    } else if (shares) {
        PyErr_SetString(PyExc_ValueError, "rows or bodies share memory with the others");
    } else {
        size_t filled, copied;
        Py_BEGIN_ALLOW_THREADS
        filled = entry_rows(inputs[BUFFER].bytes, &entries, inputs[ROWS].view.buf, rows.size / sizeof(struct frame_row),
                            bodies, has_bodies ? inputs[BODIES].bytes.size : 0, &copied);
        Py_END_ALLOW_THREADS
        result = Py_BuildValue("(nn)", (Py_ssize_t)filled, (Py_ssize_t)copied);
    }
    release(inputs, buffers);
    return result;
}

/* ---- taking a record apart ---- */

static PyObject *bytes_object(struct bytes bytes) {
    return PyBytes_FromStringAndSize((const char *)bytes.data, (Py_ssize_t)bytes.size);
}

PyObject *py_take_apart(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count) {
    enum { REST, NAMES, MESSAGE, ARGUMENTS };
    enum { FIELDS = 16 };
    if (check_count("take_apart", count, ARGUMENTS) < 0) return NULL;
    if (!PyTuple_Check(args[NAMES]) || PyTuple_Size(args[NAMES]) != FIELDS) {
        PyErr_Format(PyExc_TypeError, "names is no tuple of %d names", (int)FIELDS);
        return NULL;
    }
    struct input rest;
    struct fields fields;
    if (to_bytes(args[REST], &rest) < 0) return NULL;
    if (!fields_of(rest.bytes, &fields)) {
        PyErr_SetString(PyExc_ValueError, "no record without its body");
        release(&rest, 1);
        return NULL;
    }
    int i = 0, failed = 0;
#define SET(value) \
    if (!failed) failed = set_field(args[MESSAGE], PyTuple_GetItem(args[NAMES], i++), value)
    SET(PyLong_FromLong(fields.size));
    SET(PyLong_FromLong(fields.magic));
    SET(PyLong_FromLong(fields.body_crc));
    SET(PyLong_FromLong(fields.queue_id));
    SET(PyLong_FromLong(fields.flag));
    SET(PyLong_FromLongLong(fields.queue_offset));
    SET(PyLong_FromLongLong(fields.physical_offset));
    SET(PyLong_FromLong(fields.sys_flag));
    SET(PyLong_FromLongLong(fields.born_timestamp_ms));
    SET(PyLong_FromLongLong(fields.store_timestamp_ms));
    SET(bytes_object(fields.store_host));
    SET(PyLong_FromLong(fields.reconsume_times));
    SET(PyLong_FromLongLong(fields.prepared_transaction_offset));
    SET(PyUnicode_DecodeUTF8((const char *)fields.topic.data, (Py_ssize_t)fields.topic.size, "replace"));
    SET(bytes_object(fields.properties));
    SET((Py_INCREF(Py_None), Py_None));
#undef SET
    release(&rest, 1);
    if (failed) return NULL;
    Py_RETURN_NONE;
}

/* ---- properties ---- */

static PyObject *text_of(const uint8_t *data, size_t size) {
    return PyUnicode_DecodeUTF8((const char *)data, (Py_ssize_t)size, "replace");
}

static int add_pair(PyObject *found, struct bytes name, struct bytes value) {
    PyObject *key = text_of(name.data, name.size), *text = text_of(value.data, value.size);
    const int result = key != NULL && text != NULL ? PyDict_SetItem(found, key, text) : -1;
    Py_XDECREF(key);
    Py_XDECREF(text);
    return result;
}

PyObject *py_decode_properties(PyObject *Py_UNUSED(module), PyObject *raw) {
    enum { NAME_END = 1, VALUE_END = 2 };
    struct input input;
    if (to_bytes(raw, &input) < 0) return NULL;
    PyObject *found = PyDict_New();
    const uint8_t *at = input.bytes.data;
    size_t left = input.bytes.size;
    while (found != NULL && left > 0) {
        const uint8_t *stop = memchr(at, VALUE_END, left);
        const size_t size = stop != NULL ? (size_t)(stop - at) : left;
        const uint8_t *name_end = size > 0 ? memchr(at, NAME_END, size) : NULL;
        if (name_end != NULL && name_end > at && name_end + 1 < at + size) {
            const size_t name_size = (size_t)(name_end - at);
            const struct bytes name = {at, name_size}, value = {name_end + 1, size - name_size - 1};
            if (add_pair(found, name, value) < 0) Py_CLEAR(found);
        }
        left -= stop != NULL ? size + 1 : size;
        at += stop != NULL ? size + 1 : size;
    }
    release(&input, 1);
    return found;
}
