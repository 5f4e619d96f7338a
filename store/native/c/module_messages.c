/* Functions of the module that return messages, see messages.h and walk.h. */
#include "module.h"

#include "byteorder.h"
#include "columns.h"
#include "crc32.h"
#include "messages.h"
#include "record.h"
#include "record_fields.h"
#include "residence.h"
#include "walk.h"

/* The queues of the entries, and the type of the messages. */
struct wanted {
    const uint8_t *queue_ids; /* int32 in host byte order, one for each entry; one for all of them if `is_one_queue` */
    int is_one_queue;
    const uint8_t *queue_offsets; /* int64 in host byte order */
    struct bytes topic;
    PyTypeObject *type;
    allocfunc allocate;
    int has_fields; /* objects of the type are struct record_fields; otherwise they have these two attributes */
    PyObject *body_name, *rest_name;
    PyObject *topic_text;
    struct known_hosts hosts, *shared; /* NULL for a single message, which shares nothing */
};

/* Sets an attribute of a frozen message, bypassing its __setattr__. Steals the reference to the value. */
static int set_field(PyObject *message, PyObject *name, PyObject *value) {
    if (value == NULL) return -1;
    const int result = PyObject_GenericSetAttr(message, name, value);
    Py_DECREF(value);
    return result;
}

/* ---- messages ---- */

/* The bytes of a record before and after its body. Its lengths were checked, but those in the copy were not. */
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

/* Whether this is the message of entry i, by the fields of the copy, which cannot change. */
static int is_wanted(PyObject *rest, const struct frame_row *row, const struct wanted *wanted, size_t i,
                     struct fields *fields) {
    const struct bytes bytes = {(const uint8_t *)PyBytes_AsString(rest), (size_t)PyBytes_Size(rest)};
    if (!fields_of(bytes, fields) || (uint32_t)fields->body_size != little32(row->body_size)) return 0;
    return (uint64_t)fields->physical_offset == little64(row->physical_offset) &&
           fields->queue_offset == column64_once(wanted->queue_offsets, i) &&
           fields->queue_id == column32_once(wanted->queue_ids, wanted->is_one_queue ? 0 : i) &&
           !(fields->sys_flag & INNER_BATCH) && fields->topic.size == wanted->topic.size &&
           (fields->topic.size == 0 || memcmp(fields->topic.data, wanted->topic.data, fields->topic.size) == 0);
}

/* A message of the wanted type. Steals the references to both objects. */
static PyObject *make_message(struct wanted *wanted, PyObject *rest, PyObject *body,
                              const struct fields *fields) {
    PyObject *message = body != NULL ? wanted->allocate(wanted->type, 0) : NULL;
    if (message == NULL) {
        Py_DECREF(rest);
        Py_XDECREF(body);
        return NULL;
    }
    if (wanted->has_fields) {
        struct record_fields *const self = (struct record_fields *)message;
        /* It cannot be part of a reference cycle, so the garbage collector need not track it. */
        if (PyType_GetFlags(wanted->type) & Py_TPFLAGS_HAVE_GC) PyObject_GC_UnTrack(message);
        self->body = body;
        if (fill_record_fields(self, rest, fields, wanted->topic_text, wanted->shared) < 0) Py_CLEAR(message);
        return message;
    }
    int result = set_field(message, wanted->rest_name, rest);
    if (result == 0) result = set_field(message, wanted->body_name, body);
    else Py_DECREF(body);
    if (result < 0) Py_CLEAR(message);
    return message;
}

/* The body of a record, checked and copied in one pass; NULL without an error if it does not match its CRC. */
static PyObject *copy_body(const uint8_t *log, const struct frame_row *row, int32_t crc) {
    const size_t size = little32(row->body_size);
    PyObject *body = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)size);
    if (body == NULL) return NULL;
    const uint8_t *const from = log + little64(row->body_position);
    if (masked_crc32_copy((uint8_t *)PyBytes_AsString(body), from, size) != (uint32_t)crc) Py_CLEAR(body);
    return body;
}

/* Adds the message at a place to the list. 1: added; 0: another or a damaged record is there; -1: an error is set. */
static int add_message(PyObject *list, const uint8_t *log, struct bytes place, int64_t physical_base,
                       struct wanted *wanted, size_t i) {
    struct frame_row row;
    if (look_at(log, place, physical_base, 0, &row) != END) return 0;
    PyObject *rest = copy_rest(log, &row);
    if (rest == NULL) return -1;
    struct fields fields;
    PyObject *body = is_wanted(rest, &row, wanted, i, &fields) ? copy_body(log, &row, fields.body_crc) : NULL;
    if (body == NULL) {
        Py_DECREF(rest);
        return PyErr_Occurred() != NULL ? -1 : 0;
    }
    PyObject *message = make_message(wanted, rest, body, &fields);
    if (message == NULL) return -1;
    const int result = PyList_Append(list, message);
    Py_DECREF(message);
    return result == 0 ? 1 : -1;
}

/*
 * `memory` has room for two int64 columns. The GIL is released only if bytes must be read from the disk: with many
 * reading threads, reacquiring it would take longer than the work on these messages.
 */
static PyObject *read_entries(const struct input *inputs, size_t count, int64_t physical_base, int64_t max_size,
                              struct wanted *wanted, uint8_t *memory) {
    uint8_t *const starts = memory, *const sizes = starts + 8 * count;
    const struct ranges places = {inputs[0].bytes, starts, sizes};
    int64_t size;
    const size_t there = places_of(inputs[1].bytes.data, count, physical_base, max_size, starts, sizes, &size);
    if (!are_in_memory(&places, there)) {
        Py_BEGIN_ALLOW_THREADS
        bring_in(&places, there);
        Py_END_ALLOW_THREADS
    }
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list != NULL && i < there; i++) {
        struct bytes place;
        ask_for_place(&places, i + PLACES_AHEAD, there);
        if (!range_at(&places, i, &place)) break;
        const int added = add_message(list, places.data.data, place, physical_base, wanted, i);
        if (added < 0) Py_CLEAR(list);
        if (added == 0) break;
    }
    return list;
}

static PyObject *read_wanted(const struct input *inputs, size_t count, int64_t physical_base, int64_t max_size,
                             struct wanted *wanted) {
    PyObject *result = NULL;
    wanted->body_name = wanted->has_fields ? NULL : PyUnicode_InternFromString("body");
    wanted->rest_name = wanted->has_fields ? NULL : PyUnicode_InternFromString("_rest");
    wanted->topic_text =
        PyUnicode_DecodeUTF8((const char *)wanted->topic.data, (Py_ssize_t)wanted->topic.size, "replace");
    wanted->hosts.list = NULL;
    wanted->shared = count > 1 ? &wanted->hosts : NULL;
    uint8_t *memory = PyMem_Malloc(count * 2 * 8);
    if (memory == NULL) PyErr_NoMemory();
    else if (PyErr_Occurred() == NULL) {
        result = read_entries(inputs, count, physical_base, max_size, wanted, memory);
    }
    PyMem_Free(memory);
    Py_XDECREF(wanted->body_name);
    Py_XDECREF(wanted->rest_name);
    Py_XDECREF(wanted->topic_text);
    Py_XDECREF(wanted->hosts.list);
    return result;
}

/* Whether the type is based on the kernel's RecordFields; -1 with an error set. */
static int is_of_fields(PyObject *module, PyTypeObject *type) {
    PyObject *fields = PyObject_GetAttrString(module, "RecordFields");
    if (fields == NULL) return -1;
    const int result = PyType_IsSubtype(type, (PyTypeObject *)fields);
    Py_DECREF(fields);
    return result;
}

PyObject *py_messages(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    enum { BUFFER, UNITS, QUEUE_OFFSETS, TOPIC, QUEUE_IDS, PHYSICAL_BASE, MAX_SIZE, TYPE, ARGUMENTS };
    int64_t physical_base, max_size;
    int32_t queue_id;
    struct wanted wanted;
    if (check_count("messages", count, ARGUMENTS) < 0) return NULL;
    wanted.is_one_queue = PyLong_Check(args[QUEUE_IDS]);
    const int buffers = wanted.is_one_queue ? QUEUE_IDS : PHYSICAL_BASE;
    if ((wanted.is_one_queue && to_int32(args[QUEUE_IDS], "queue_ids", &queue_id) < 0) ||
        to_int64(args[PHYSICAL_BASE], "physical_base", &physical_base) < 0 ||
        to_int64(args[MAX_SIZE], "max_size", &max_size) < 0) {
        return NULL;
    }
    if (!PyType_Check(args[TYPE])) {
        PyErr_SetString(PyExc_TypeError, "message_type is no type");
        return NULL;
    }
    wanted.type = (PyTypeObject *)args[TYPE];
    wanted.allocate = (allocfunc)PyType_GetSlot(wanted.type, Py_tp_alloc);
    wanted.has_fields = is_of_fields(module, wanted.type);
    if (wanted.has_fields < 0) return NULL;
    struct input inputs[PHYSICAL_BASE];
    for (int i = 0; i < buffers; i++) {
        if (to_bytes(args[i], &inputs[i]) < 0) {
            release(inputs, i);
            return NULL;
        }
    }
    PyObject *result = NULL;
    const size_t entries = inputs[UNITS].bytes.size / UNIT_SIZE;
    wanted.topic = inputs[TOPIC].bytes;
    wanted.queue_offsets = inputs[QUEUE_OFFSETS].bytes.data;
    wanted.queue_ids = wanted.is_one_queue ? (const uint8_t *)&queue_id : inputs[QUEUE_IDS].bytes.data;
    if (inputs[UNITS].bytes.size % UNIT_SIZE != 0 || inputs[QUEUE_OFFSETS].bytes.size != 8 * entries) {
        PyErr_SetString(PyExc_ValueError, "units must be whole entries, and queue_offsets an int64 column as long");
    } else if (!wanted.is_one_queue && inputs[QUEUE_IDS].bytes.size != 4 * entries) {
        PyErr_SetString(PyExc_ValueError, "queue_ids must be an int32, or an int32 column as long as units");
    } else {
        result = read_wanted(inputs, entries, physical_base, max_size, &wanted);
    }
    release(inputs, buffers);
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
    uint8_t *bodies = NULL; /* the address of an empty buffer may be NULL */
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

/* ---- properties ---- */

PyObject *py_decode_properties(PyObject *Py_UNUSED(module), PyObject *raw) {
    struct input input;
    if (to_bytes(raw, &input) < 0) return NULL;
    PyObject *found = pairs_of(input.bytes, NULL);
    release(&input, 1);
    return found;
}
