/*
 * The kernel as a Python module: arguments in, one of walk.h / encode.h / crc32.h, result out. twin.py is its
 * reference.
 *
 * Only the limited API of CPython 3.11 is used, so one build serves 3.11 and everything later. Mistakes are reported in
 * one order by both twins: first every integer (TypeError, OverflowError), then every buffer (TypeError, BufferError),
 * then the values (ValueError), and nothing is written before all of them are right.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <string.h>

#include "crc32.h"
#include "encode.h"
#include "walk.h"

/* Below this a thread that waits for the GIL waits less than giving it away and taking it back costs. */
#define GIL_RELEASE_SIZE ((Py_ssize_t)64 << 10)

/* ---- integers ---- */

static int to_int64(PyObject *object, const char *name, int64_t *value) {
    int overflow;
    const long long number = PyLong_AsLongLongAndOverflow(object, &overflow);
    if (number == -1 && PyErr_Occurred()) return -1;
    if (overflow) {
        PyErr_Format(PyExc_OverflowError, "%s does not fit into 64 bits", name);
        return -1;
    }
    *value = number;
    return 0;
}

static int to_int32(PyObject *object, const char *name, int32_t *value) {
    int overflow;
    const long long number = PyLong_AsLongLongAndOverflow(object, &overflow);
    if (number == -1 && PyErr_Occurred()) return -1;
    if (overflow || number < INT32_MIN || number > INT32_MAX) {
        PyErr_Format(PyExc_OverflowError, "%s does not fit into 32 bits", name);
        return -1;
    }
    *value = (int32_t)number;
    return 0;
}

static int check_count(const char *function, Py_ssize_t given, Py_ssize_t expected) {
    if (given == expected) return 0;
    PyErr_Format(PyExc_TypeError, "%s() takes %zd positional arguments (%zd given)", function, expected, given);
    return -1;
}

/* ---- buffers ---- */

struct input {
    struct bytes bytes;
    Py_buffer view; /* set only if held */
    int held;
};

/* Any C-contiguous buffer. A bytes object never changes and the caller keeps it alive: its address will do. */
static int to_bytes(PyObject *object, struct input *input) {
    if (Py_IS_TYPE(object, &PyBytes_Type)) {
        input->bytes.data = (const uint8_t *)PyBytes_AsString(object);
        input->bytes.size = (size_t)PyBytes_Size(object);
        input->held = 0;
        return 0;
    }
    if (PyObject_GetBuffer(object, &input->view, PyBUF_SIMPLE) < 0) {
        /* some exporters' word for it: an array that is not C-contiguous, a closed mmap */
        if (PyErr_ExceptionMatches(PyExc_ValueError)) {
            PyErr_SetString(PyExc_BufferError, "the buffer cannot be read: it is not C-contiguous, or closed");
        }
        return -1;
    }
    input->bytes.data = input->view.buf;
    input->bytes.size = (size_t)input->view.len;
    input->held = 1;
    return 0;
}

static int to_writable(PyObject *object, const char *name, struct input *input) {
    if (to_bytes(object, input) < 0) return -1;
    if (input->held && !input->view.readonly) return 0;
    if (input->held) PyBuffer_Release(&input->view);
    input->held = 0;
    PyErr_Format(PyExc_BufferError, "%s is read-only", name);
    return -1;
}

static void release(struct input *inputs, int count) {
    for (int i = 0; i < count; i++) {
        if (inputs[i].held) PyBuffer_Release(&inputs[i].view);
    }
}

/* ---- functions ---- */

static PyObject *py_masked_crc32(PyObject *Py_UNUSED(module), PyObject *data) {
    struct input input;
    if (to_bytes(data, &input) < 0) return NULL;
    uint32_t crc;
    if (input.bytes.size > (size_t)GIL_RELEASE_SIZE) {
        Py_BEGIN_ALLOW_THREADS
        crc = masked_crc32(input.bytes.data, input.bytes.size);
        Py_END_ALLOW_THREADS
    } else {
        crc = masked_crc32(input.bytes.data, input.bytes.size);
    }
    release(&input, 1);
    return PyLong_FromUnsignedLong(crc);
}

static PyObject *py_masked_crc32_all_ways(PyObject *Py_UNUSED(module), PyObject *data) {
    struct input input;
    if (to_bytes(data, &input) < 0) return NULL;
    uint32_t crcs[CRC32_WAYS];
    const int ways = masked_crc32_all_ways(input.bytes.data, input.bytes.size, crcs);
    release(&input, 1);
    PyObject *result = PyTuple_New(ways);
    for (int way = 0; result != NULL && way < ways; way++) {
        PyObject *crc = PyLong_FromUnsignedLong(crcs[way]);
        if (crc == NULL) Py_CLEAR(result);
        else PyTuple_SetItem(result, way, crc);
    }
    return result;
}

static PyObject *py_walk(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count) {
    enum { BUFFER, START, STOP, PHYSICAL_BASE, CHECK_CRC, ROWS, ARGUMENTS };
    int64_t position, stop, physical_base;
    if (check_count("walk", count, ARGUMENTS) < 0 || to_int64(args[START], "start", &position) < 0 ||
        to_int64(args[STOP], "stop", &stop) < 0 || to_int64(args[PHYSICAL_BASE], "physical_base", &physical_base) < 0) {
        return NULL;
    }
    const int check_crc = PyObject_IsTrue(args[CHECK_CRC]);
    if (check_crc < 0) return NULL;

    struct input inputs[2];
    if (to_bytes(args[BUFFER], &inputs[0]) < 0) return NULL;
    if (to_writable(args[ROWS], "rows", &inputs[1]) < 0) {
        release(inputs, 1);
        return NULL;
    }
    PyObject *result = NULL;
    const size_t rows_size = inputs[1].bytes.size;
    if (position < 0 || position > stop || (uint64_t)stop > inputs[0].bytes.size) {
        PyErr_Format(PyExc_ValueError, "start and stop must satisfy 0 <= start <= stop <= %zu (bytes in the buffer)",
                     inputs[0].bytes.size);
    } else if (rows_size % sizeof(struct frame_row) != 0) {
        PyErr_Format(PyExc_ValueError, "rows has %zu bytes, which is no multiple of FRAME_DTYPE.itemsize (%zu)",
                     rows_size, sizeof(struct frame_row));
    } else {
        enum walk_end end;
        size_t filled;
        Py_BEGIN_ALLOW_THREADS
        end = walk_frames(inputs[0].bytes.data, &position, stop, physical_base, check_crc, inputs[1].view.buf,
                          rows_size / sizeof(struct frame_row), &filled);
        Py_END_ALLOW_THREADS
        result = Py_BuildValue("(nLi)", (Py_ssize_t)filled, (long long)position, (int)end);
    }
    release(inputs, 2);
    return result;
}

static int touches(const uint8_t *at, size_t size, struct bytes bytes) {
    const uintptr_t first = (uintptr_t)at, other = (uintptr_t)bytes.data;
    return bytes.size > 0 && other < first + size && first < other + bytes.size;
}

/* A record some of whose bytes lie where it is going to stand is put together elsewhere first. */
static int encode_aside(uint8_t *at, int32_t size, const struct record *record) {
    uint8_t *scratch = PyMem_Malloc((size_t)size);
    if (scratch == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    encode_record(scratch, size, record);
    memcpy(at + 8, scratch + 8, (size_t)size - 8);
    publish_head(at, size, record->magic);
    PyMem_Free(scratch);
    return 0;
}

static PyObject *write_record(uint8_t *buffer, size_t buffer_size, int64_t position, const struct record *record) {
    const char *refusal = NULL;
    const int32_t size = record_size(record, &refusal);
    if (size == 0) {
        PyErr_SetString(PyExc_ValueError, refusal);
        return NULL;
    }
    if (position < 0 || (uint64_t)size > buffer_size || (uint64_t)position > buffer_size - (uint64_t)size) {
        PyErr_Format(PyExc_ValueError, "a record of %d bytes at position %lld does not fit into a buffer of %zu bytes",
                     (int)size, (long long)position, buffer_size);
        return NULL;
    }
    uint8_t *at = buffer + position;
    if (touches(at, (size_t)size, record->born_host) || touches(at, (size_t)size, record->store_host) ||
        touches(at, (size_t)size, record->body) || touches(at, (size_t)size, record->topic) ||
        touches(at, (size_t)size, record->properties)) {
        if (encode_aside(at, size, record) < 0) return NULL;
    } else if (record->body.size >= (size_t)GIL_RELEASE_SIZE) {
        Py_BEGIN_ALLOW_THREADS
        encode_record(at, size, record);
        Py_END_ALLOW_THREADS
    } else {
        encode_record(at, size, record);
    }
    return PyLong_FromLong(size);
}

static PyObject *py_encode_record(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count) {
    enum {
        BUFFER, POSITION, MAGIC, QUEUE_ID, FLAG, QUEUE_OFFSET, PHYSICAL_OFFSET, SYS_FLAG, BORN_TIMESTAMP, BORN_HOST,
        STORE_TIMESTAMP, STORE_HOST, RECONSUME_TIMES, PREPARED_OFFSET, BODY, TOPIC, PROPERTIES, ARGUMENTS
    };
    int64_t position;
    struct record record;
    if (check_count("encode_record", count, ARGUMENTS) < 0 || to_int64(args[POSITION], "position", &position) < 0 ||
        to_int32(args[MAGIC], "magic", &record.magic) < 0 ||
        to_int32(args[QUEUE_ID], "queue_id", &record.queue_id) < 0 ||
        to_int32(args[FLAG], "flag", &record.flag) < 0 ||
        to_int64(args[QUEUE_OFFSET], "queue_offset", &record.queue_offset) < 0 ||
        to_int64(args[PHYSICAL_OFFSET], "physical_offset", &record.physical_offset) < 0 ||
        to_int32(args[SYS_FLAG], "sys_flag", &record.sys_flag) < 0 ||
        to_int64(args[BORN_TIMESTAMP], "born_timestamp_ms", &record.born_timestamp_ms) < 0 ||
        to_int64(args[STORE_TIMESTAMP], "store_timestamp_ms", &record.store_timestamp_ms) < 0 ||
        to_int32(args[RECONSUME_TIMES], "reconsume_times", &record.reconsume_times) < 0 ||
        to_int64(args[PREPARED_OFFSET], "prepared_transaction_offset", &record.prepared_transaction_offset) < 0) {
        return NULL;
    }
    enum { SOURCES = 5 };
    static const int source_arguments[SOURCES] = {BORN_HOST, STORE_HOST, BODY, TOPIC, PROPERTIES};
    struct bytes *const targets[SOURCES] = {&record.born_host, &record.store_host, &record.body, &record.topic,
                                            &record.properties};
    struct input inputs[1 + SOURCES];
    if (to_writable(args[BUFFER], "buffer", &inputs[0]) < 0) return NULL;
    int held = 1;
    for (; held <= SOURCES; held++) {
        if (to_bytes(args[source_arguments[held - 1]], &inputs[held]) < 0) break;
        *targets[held - 1] = inputs[held].bytes;
    }
    PyObject *result = NULL;
    if (held > SOURCES) result = write_record(inputs[0].view.buf, inputs[0].bytes.size, position, &record);
    release(inputs, held);
    return result;
}

/* ---- the module ---- */

static PyMethodDef methods[] = {
    {"masked_crc32", py_masked_crc32, METH_O, "masked_crc32(data, /)\n--\n\nCRC-32 of the bytes AND 7FFFFFFF."},
    {"_masked_crc32_all_ways", py_masked_crc32_all_ways, METH_O,
     "_masked_crc32_all_ways(data, /)\n--\n\nThe same by every way that this CPU offers for so many bytes; for tests."},
    {"walk", (PyCFunction)(void (*)(void))py_walk, METH_FASTCALL,
     "walk(buffer, start, stop, physical_base, check_crc, rows, /)\n--\n\n(rows filled, position, frame.WalkEnd)"},
    {"encode_record", (PyCFunction)(void (*)(void))py_encode_record, METH_FASTCALL,
     "encode_record(buffer, position, magic, queue_id, flag, queue_offset, physical_offset, sys_flag, "
     "born_timestamp_ms, born_host, store_timestamp_ms, store_host, reconsume_times, prepared_transaction_offset, "
     "body, topic, properties, /)\n--\n\nWrites a record; returns its size in bytes."},
    {NULL, NULL, 0, NULL},
};

static int prepare(PyObject *Py_UNUSED(module)) {
    crc32_prepare();
    return 0;
}

static PyModuleDef_Slot slots[] = {{Py_mod_exec, prepare}, {0, NULL}};

static struct PyModuleDef definition = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = "_kernel",
    .m_doc = "The C kernel of flightlog; twin.py does the same in Python.",
    .m_size = 0,
    .m_methods = methods,
    .m_slots = slots,
};

PyMODINIT_FUNC PyInit__kernel(void);
PyMODINIT_FUNC PyInit__kernel(void) { return PyModuleDef_Init(&definition); }
