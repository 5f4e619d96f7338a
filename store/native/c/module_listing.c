/* Functions of the module that fill queues and the key index, see listing.h and key_links.h. */
#include "module.h"

#include "key_links.h"
#include "listing.h"
#include "walk.h"

#define MANY 64 /* with this many rows or keys the GIL is released */

/* Acquires all buffers of a call, those from `writable` on for writing; on failure releases those acquired before. */
static int to_inputs(PyObject *const *args, const char *const *names, int count, int writable, struct input *inputs) {
    for (int i = 0; i < count; i++) {
        if (i < writable ? to_bytes(args[i], &inputs[i]) : to_writable(args[i], names[i], &inputs[i])) {
            release(inputs, i);
            return -1;
        }
    }
    return 0;
}

/* Whether a writable buffer overlaps another one. */
static int overlap(const struct input *inputs, int count, int writable) {
    for (int i = writable; i < count; i++) {
        for (int j = 0; j < count; j++) {
            if (j != i && inputs[i].bytes.size > 0 &&
                touches(inputs[i].bytes.data, inputs[i].bytes.size, inputs[j].bytes)) {
                return 1;
            }
        }
    }
    return 0;
}

PyObject *py_list_rows(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count) {
    enum { BUFFER, ROWS, APART_TOPIC, UNITS, ROW_NUMBERS, QUEUES, KEY_HASHES, KEY_OFFSETS, KEY_TIMES, ARGUMENTS };
    static const char *const names[ARGUMENTS] = {[UNITS] = "units", [ROW_NUMBERS] = "row_numbers", [QUEUES] = "queues",
                                                 [KEY_HASHES] = "key_hashes", [KEY_OFFSETS] = "key_offsets",
                                                 [KEY_TIMES] = "key_times"};
    struct input inputs[ARGUMENTS];
    if (check_count("list_rows", count, ARGUMENTS) < 0 || to_inputs(args, names, ARGUMENTS, UNITS, inputs) < 0) {
        return NULL;
    }
    PyObject *result = NULL;
    const struct bytes data = inputs[BUFFER].bytes, rows = inputs[ROWS].bytes, apart = inputs[APART_TOPIC].bytes;
    const size_t wanted = rows.size / sizeof(struct frame_row), room = inputs[KEY_HASHES].bytes.size / 4;
    if (rows.size % sizeof(struct frame_row) != 0 || wanted > INT32_MAX) {
        PyErr_Format(PyExc_ValueError, "rows has %zu bytes, which is no number of rows of %zu", rows.size,
                     sizeof(struct frame_row));
    } else if (inputs[UNITS].bytes.size < UNIT_SIZE * wanted || inputs[ROW_NUMBERS].bytes.size < 4 * wanted ||
               inputs[QUEUES].bytes.size < sizeof(struct listed_queue) * wanted) {
        PyErr_SetString(PyExc_ValueError, "units, row_numbers and queues must have room for one a row");
    } else if (inputs[KEY_OFFSETS].bytes.size < 8 * room || inputs[KEY_TIMES].bytes.size < 8 * room) {
        PyErr_SetString(PyExc_ValueError, "key_offsets and key_times must have room for as many as key_hashes");
    } else if (overlap(inputs, ARGUMENTS, UNITS)) {
        PyErr_SetString(PyExc_ValueError, "a buffer that is written to shares memory with another");
    } else {
        struct listing listing = {inputs[UNITS].view.buf, inputs[ROW_NUMBERS].view.buf, inputs[QUEUES].view.buf,
                                  inputs[KEY_HASHES].view.buf, inputs[KEY_OFFSETS].view.buf,
                                  inputs[KEY_TIMES].view.buf, room, 0, 0, 0, 0, 0};
        PyThreadState *thread = wanted >= MANY ? let_others_run() : NULL;
        const int are_inside = rows_are_inside(data, rows.data, wanted);
        const int is_listed = are_inside && list_rows(data, rows.data, wanted, apart, &listing);
        if (thread != NULL) PyEval_RestoreThread(thread);
        if (!are_inside) PyErr_SetString(PyExc_ValueError, "topic or properties of a row lie outside of the buffer");
        else if (!is_listed) PyErr_NoMemory();
        else {
            result = Py_BuildValue("(nnnnn)", (Py_ssize_t)listing.unit_count, (Py_ssize_t)listing.apart_count,
                                   (Py_ssize_t)listing.queue_count, (Py_ssize_t)listing.key_count,
                                   (Py_ssize_t)listing.batch_count);
        }
    }
    release(inputs, ARGUMENTS);
    return result;
}

PyObject *py_link_keys(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count) {
    enum { FIRST, BEGIN_TIMESTAMP, INTEGERS };
    enum { SLOTS, KEY_HASHES, KEY_OFFSETS, KEY_TIMES, ENTRIES, IN_SLOT, BUFFERS };
    static const char *const names[BUFFERS] = {[ENTRIES] = "entries", [IN_SLOT] = "in_slot"};
    struct new_keys keys;
    struct input buffers[BUFFERS];
    if (check_count("link_keys", count, INTEGERS + BUFFERS) < 0 || to_int32(args[FIRST], "first", &keys.first) < 0 ||
        to_int64(args[BEGIN_TIMESTAMP], "begin_timestamp_ms", &keys.begin_timestamp_ms) < 0 ||
        to_inputs(args + INTEGERS, names, BUFFERS, ENTRIES, buffers) < 0) {
        return NULL;
    }
    PyObject *result = NULL;
    const size_t slot_count = buffers[SLOTS].bytes.size / 4;
    keys.count = buffers[KEY_HASHES].bytes.size / 4;
    if (buffers[SLOTS].bytes.size % 4 != 0 || slot_count == 0 || slot_count > INT32_MAX) {
        PyErr_SetString(PyExc_ValueError, "slots must be an int32 column of one to 2147483647");
    } else if (buffers[KEY_HASHES].bytes.size % 4 != 0 || buffers[KEY_OFFSETS].bytes.size != 8 * keys.count ||
               buffers[KEY_TIMES].bytes.size != 8 * keys.count || buffers[IN_SLOT].bytes.size != 4 * keys.count ||
               buffers[ENTRIES].bytes.size != KEY_ENTRY_SIZE * keys.count) {
        PyErr_SetString(PyExc_ValueError, "key_hashes and in_slot must be int32 columns, key_offsets and key_times "
                                          "int64 columns and entries 20 bytes each, all of one length");
    } else if (keys.first < 1 || keys.count > (size_t)(INT32_MAX - keys.first)) {
        PyErr_SetString(PyExc_ValueError, "the entries' numbers must lie between 1 and 2147483647");
    } else if (overlap(buffers, BUFFERS, ENTRIES)) {
        PyErr_SetString(PyExc_ValueError, "a buffer that is written to shares memory with another");
    } else {
        keys.hashes = buffers[KEY_HASHES].bytes.data;
        keys.offsets = buffers[KEY_OFFSETS].bytes.data;
        keys.timestamps_ms = buffers[KEY_TIMES].bytes.data;
        PyThreadState *thread = keys.count >= MANY ? let_others_run() : NULL;
        const int64_t empty = link_keys(buffers[SLOTS].bytes.data, slot_count, &keys, buffers[ENTRIES].view.buf,
                                        buffers[IN_SLOT].view.buf);
        if (thread != NULL) PyEval_RestoreThread(thread);
        result = empty < 0 ? PyErr_NoMemory() : PyLong_FromLongLong(empty);
    }
    release(buffers, BUFFERS);
    return result;
}

PyObject *py_set_heads(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count) {
    enum { FIRST, SLOTS_BEFORE, INTEGERS };
    enum { IN_SLOT, SLOTS, STAMPS, BUFFERS };
    static const char *const names[BUFFERS] = {[SLOTS] = "slots", [STAMPS] = "stamps"};
    int32_t first, slots_before;
    struct input buffers[BUFFERS];
    if (check_count("set_heads", count, INTEGERS + BUFFERS) < 0 || to_int32(args[FIRST], "first", &first) < 0 ||
        to_int32(args[SLOTS_BEFORE], "slots_before", &slots_before) < 0 ||
        to_inputs(args + INTEGERS, names, BUFFERS, SLOTS, buffers) < 0) {
        return NULL;
    }
    PyObject *result = NULL;
    const struct bytes in_slot = buffers[IN_SLOT].bytes, slots = buffers[SLOTS].bytes, stamps = buffers[STAMPS].bytes;
    if (in_slot.size % 4 != 0 || slots.size % 4 != 0 || stamps.size % 4 != 0) {
        PyErr_SetString(PyExc_ValueError, "in_slot, slots and stamps must be int32 columns");
    } else if (first < 1 || in_slot.size / 4 > (size_t)(INT32_MAX - first) || slots_before < 0) {
        PyErr_SetString(PyExc_ValueError, "the entries' numbers must lie between 1 and 2147483647, slots_before at 0 "
                                          "or above");
    } else if (overlap(buffers, BUFFERS, SLOTS)) {
        PyErr_SetString(PyExc_ValueError, "a buffer that is written to shares memory with another");
    } else {
        const size_t heads = in_slot.size / 4;
        PyThreadState *thread = heads >= MANY ? let_others_run() : NULL;
        const int are_set = set_heads(buffers[SLOTS].view.buf, slots.size / 4, buffers[STAMPS].view.buf,
                                      stamps.size / 4, (size_t)slots_before, in_slot.data, heads, first);
        if (thread != NULL) PyEval_RestoreThread(thread);
        if (are_set) result = Py_NewRef(Py_None);
        else PyErr_SetString(PyExc_ValueError, "a slot lies outside of slots, or its page outside of stamps");
    }
    release(buffers, BUFFERS);
    return result;
}
