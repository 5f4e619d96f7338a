/*
 * The kernel as a Python module. Its functions convert arguments, call walk.h, encode.h or crc32.h, and convert the
 * result. pure/ is its reference.
 *
 * Only the limited API of CPython 3.11 is used, so one build serves 3.11 and later. Kernel and reference report wrong
 * arguments in the same order: first all integers (TypeError, OverflowError), then all buffers (TypeError,
 * BufferError), then values (ValueError). Nothing is written before all arguments are valid.
 */
#include "arguments.h"

#include "crc32.h"
#include "module.h"
#include "record_fields.h"
#include "message_fields.h"
#include "result_fields.h"
#include "walk.h"

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
    uint8_t *copy = PyMem_Malloc(input.bytes.size);
    if (copy == NULL) {
        release(&input, 1);
        return PyErr_NoMemory();
    }
    uint32_t crcs[CRC32_WAYS];
    const int ways = masked_crc32_all_ways(input.bytes.data, input.bytes.size, copy, crcs);
    PyMem_Free(copy);
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
        const int is_long = stop - position >= GIL_RELEASE_SIZE; /* a read after a few puts is not */
        PyThreadState *const thread = is_long ? let_others_run() : NULL;
        end = walk_frames(inputs[0].bytes.data, &position, stop, physical_base, check_crc, inputs[1].view.buf,
                          rows_size / sizeof(struct frame_row), &filled);
        if (is_long) PyEval_RestoreThread(thread);
        result = Py_BuildValue("(nLi)", (Py_ssize_t)filled, (long long)position, (int)end);
    }
    release(inputs, 2);
    return result;
}

/* A record whose parts overlap its destination is encoded elsewhere first. */
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
     "_masked_crc32_all_ways(data, /)\n--\n\nThe same by every way that this CPU offers for so many bytes, and of the "
     "copies made on the way; for tests."},
    {"walk", (PyCFunction)(void (*)(void))py_walk, METH_FASTCALL,
     "walk(buffer, start, stop, physical_base, check_crc, rows, /)\n--\n\n(rows filled, position, frame.WalkEnd)"},
    {"encode_record", (PyCFunction)(void (*)(void))py_encode_record, METH_FASTCALL,
     "encode_record(buffer, position, magic, queue_id, flag, queue_offset, physical_offset, sys_flag, "
     "born_timestamp_ms, born_host, store_timestamp_ms, store_host, reconsume_times, prepared_transaction_offset, "
     "body, topic, properties, /)\n--\n\nWrites a record; returns its size in bytes."},
    {"walk_places", (PyCFunction)(void (*)(void))py_walk_places, METH_FASTCALL,
     "walk_places(buffer, positions, sizes, physical_base, check_crc, rows, /)\n--\n\n(rows filled, frame.WalkEnd)"},
    {"gather", (PyCFunction)(void (*)(void))py_gather, METH_FASTCALL,
     "gather(buffer, starts, sizes, out, /)\n--\n\nCopies ranges of the buffer, one behind the other; returns len(out)."},
    {"property_texts", (PyCFunction)(void (*)(void))py_property_texts, METH_FASTCALL,
     "property_texts(properties, text_sizes, /)\n--\n\n(texts of all rows, whether they are plain)"},
    {"number_rows", (PyCFunction)(void (*)(void))py_number_rows, METH_FASTCALL,
     "number_rows(queue_ids, ids, next_offsets, queue_offsets, /)\n--\n\nGives each row the next offset of its queue."},
    {"encode_columns", (PyCFunction)(void (*)(void))py_encode_columns, METH_FASTCALL,
     "encode_columns(buffer, position, magic, sys_flag, physical_offset, store_timestamp_ms, born_host, store_host, "
     "topic, queue_ids, flags, queue_offsets, born_timestamps, bodies, body_starts, body_sizes, properties, "
     "properties_starts, properties_sizes, /)\n--\n\nWrites a record for each row; returns their size in bytes."},
    {"messages", (PyCFunction)(void (*)(void))py_messages, METH_FASTCALL,
     "messages(buffer, units, queue_offsets, topic, physical_base, queue_id, max_size, message_type, /)\n--\n\n"
     "The messages of the leading entries."},
    {"decode_properties", py_decode_properties, METH_O,
     "decode_properties(raw, /)\n--\n\nThe pairs of a record's properties."},
    {"entry_rows", (PyCFunction)(void (*)(void))py_entry_rows, METH_FASTCALL,
     "entry_rows(buffer, units, queue_offsets, topic, rows, bodies, physical_base, queue_id, max_size, /)\n--\n\n"
     "(rows filled, bytes of bodies copied) of the leading entries."},
    {"list_rows", (PyCFunction)(void (*)(void))py_list_rows, METH_FASTCALL,
     "list_rows(buffer, rows, apart_topic, units, row_numbers, queues, key_hashes, key_offsets, key_times, /)\n--\n\n"
     "(units, rows apart, queues, keys, inner batches)"},
    {"link_keys", (PyCFunction)(void (*)(void))py_link_keys, METH_FASTCALL,
     "link_keys(first, begin_timestamp_ms, slots, key_hashes, key_offsets, key_times, entries, in_slot, /)\n--\n\n"
     "Writes an entry for each key; returns how many slots were empty."},
    {"set_heads", (PyCFunction)(void (*)(void))py_set_heads, METH_FASTCALL,
     "set_heads(first, slots_before, in_slot, slots, stamps, /)\n--\n\nMakes entries the heads of their slots."},
    {"populate", (PyCFunction)(void (*)(void))py_populate, METH_FASTCALL,
     "populate(buffer, position, size, /)\n--\n\nMakes pages of a mapping present; returns whether it could."},
    {"release_pages", (PyCFunction)(void (*)(void))py_release_pages, METH_FASTCALL,
     "release_pages(buffer, position, size, /)\n--\n\nLets go of pages of a mapping; returns whether it could."},
    {"sync_pages", (PyCFunction)(void (*)(void))py_sync_pages, METH_FASTCALL,
     "sync_pages(buffer, position, size, /)\n--\n\nSyncs pages of a mapping; returns whether it could."},
    {NULL, NULL, 0, NULL},
};

static int prepare(PyObject *module) {
    crc32_prepare();
    if (add_record_fields_type(module) < 0 || add_message_fields_type(module) < 0) return -1;
    if (add_result_fields_type(module) < 0) return -1;
    if (add_group_commit_type(module) < 0 || add_fast_path_type(module) < 0) return -1;
    return add_put_type(module);
}

static PyModuleDef_Slot slots[] = {{Py_mod_exec, prepare}, {0, NULL}};

static struct PyModuleDef definition = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = "_kernel",
    .m_doc = "The C kernel of flightlog; pure/ does the same in Python.",
    .m_size = 0,
    .m_methods = methods,
    .m_slots = slots,
};

PyMODINIT_FUNC PyInit__kernel(void);
PyMODINIT_FUNC PyInit__kernel(void) { return PyModuleDef_Init(&definition); }
