/* Functions of the module over columns, see walk.h and columns.h. */
#include "module.h"

#include "columns.h"
#include "walk.h"

/* Acquires all buffers of a call; on failure releases those acquired before. */
static int to_inputs(PyObject *const *args, const int *places, int count, struct input *inputs) {
    for (int i = 0; i < count; i++) {
        if (to_bytes(args[places[i]], &inputs[i]) < 0) {
            release(inputs, i);
            return -1;
        }
    }
    return 0;
}

/* The number of items in a column; -1 if its size is not a multiple of theirs. */
static int64_t items(const struct input *input, size_t item_size) {
    return input->bytes.size % item_size ? -1 : (int64_t)(input->bytes.size / item_size);
}

PyObject *py_walk_places(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count) {
    enum { BUFFER, POSITIONS, SIZES, PHYSICAL_BASE, CHECK_CRC, ROWS, ARGUMENTS };
    if (check_count("walk_places", count, ARGUMENTS) < 0) return NULL;
    const int has_bases = !PyLong_Check(args[PHYSICAL_BASE]);
    int64_t physical_base = 0;
    if (!has_bases && to_int64(args[PHYSICAL_BASE], "physical_base", &physical_base) < 0) return NULL;
    const int check_crc = PyObject_IsTrue(args[CHECK_CRC]);
    if (check_crc < 0) return NULL;
    static const int columns[] = {BUFFER, POSITIONS, SIZES, PHYSICAL_BASE};
    struct input inputs[5];
    const int read_only = has_bases ? 4 : 3;
    if (to_inputs(args, columns, read_only, inputs) < 0) return NULL;
    struct input *const rows = &inputs[read_only];
    if (to_writable(args[ROWS], "rows", rows) < 0) {
        release(inputs, read_only);
        return NULL;
    }
    PyObject *result = NULL;
    const size_t rows_size = rows->bytes.size;
    const int64_t wanted = items(&inputs[1], 8);
    if (wanted < 0 || items(&inputs[2], 8) != wanted || (has_bases && items(&inputs[3], 8) != wanted)) {
        PyErr_SetString(PyExc_ValueError, "positions, sizes and bases must be int64 columns of one length");
    } else if (rows_size % sizeof(struct frame_row) != 0) {
        PyErr_Format(PyExc_ValueError, "rows has %zu bytes, which is no multiple of FRAME_DTYPE.itemsize (%zu)",
                     rows_size, sizeof(struct frame_row));
    } else {
        const struct ranges ranges = {inputs[0].bytes, inputs[1].bytes.data, inputs[2].bytes.data};
        const uint8_t *const bases = has_bases ? inputs[3].bytes.data : NULL;
        size_t filled = 0;
        enum walk_end end = END;
        int are_inside;
        Py_BEGIN_ALLOW_THREADS
        are_inside = ranges_size(&ranges, (size_t)wanted) >= 0;
        if (are_inside) {
            end = walk_places(&ranges, (size_t)wanted, physical_base, bases, check_crc, rows->view.buf,
                              rows_size / sizeof(struct frame_row), &filled);
        }
        Py_END_ALLOW_THREADS
        if (are_inside) result = Py_BuildValue("(ni)", (Py_ssize_t)filled, (int)end);
        else PyErr_SetString(PyExc_ValueError, "a place lies outside of the buffer");
    }
    release(inputs, read_only + 1);
    return result;
}

PyObject *py_gather(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count) {
    enum { BUFFER, STARTS, SIZES, OUT, ARGUMENTS };
    if (check_count("gather", count, ARGUMENTS) < 0) return NULL;
    static const int places[] = {BUFFER, STARTS, SIZES};
    struct input inputs[4];
    if (to_inputs(args, places, 3, inputs) < 0) return NULL;
    if (to_writable(args[OUT], "out", &inputs[3]) < 0) {
        release(inputs, 3);
        return NULL;
    }
    PyObject *result = NULL;
    const struct bytes out = inputs[3].bytes;
    const struct ranges ranges = {inputs[0].bytes, inputs[1].bytes.data, inputs[2].bytes.data};
    const int64_t wanted = items(&inputs[1], 8);
    if (wanted < 0 || items(&inputs[2], 8) != wanted) {
        PyErr_SetString(PyExc_ValueError, "starts and sizes must be int64 columns of one length");
    } else if (touches(out.data, out.size, ranges.data) || touches(out.data, out.size, inputs[1].bytes) ||
               touches(out.data, out.size, inputs[2].bytes)) {
        PyErr_SetString(PyExc_ValueError, "out shares memory with what is gathered");
    } else {
        int64_t size;
        int is_whole = 0;
        Py_BEGIN_ALLOW_THREADS
        size = ranges_size(&ranges, (size_t)wanted);
        if (size >= 0 && (uint64_t)size == out.size) {
            is_whole = gather_ranges(&ranges, (size_t)wanted, inputs[3].view.buf, out.size);
        }
        Py_END_ALLOW_THREADS
        if (is_whole) result = PyLong_FromLongLong(size);
        else if (size < 0) PyErr_SetString(PyExc_ValueError, "a range lies outside of the buffer");
        else PyErr_Format(PyExc_ValueError, "the ranges take %lld bytes, out has %zu", (long long)size, out.size);
    }
    release(inputs, 4);
    return result;
}

PyObject *py_number_rows(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count) {
    enum { QUEUE_IDS, IDS, NEXT_OFFSETS, QUEUE_OFFSETS, ARGUMENTS };
    if (check_count("number_rows", count, ARGUMENTS) < 0) return NULL;
    static const int places[] = {QUEUE_IDS, IDS};
    struct input inputs[ARGUMENTS];
    if (to_inputs(args, places, 2, inputs) < 0) return NULL;
    if (to_writable(args[NEXT_OFFSETS], "next_offsets", &inputs[NEXT_OFFSETS]) < 0) {
        release(inputs, 2);
        return NULL;
    }
    if (to_writable(args[QUEUE_OFFSETS], "queue_offsets", &inputs[QUEUE_OFFSETS]) < 0) {
        release(inputs, 3);
        return NULL;
    }
    PyObject *result = NULL;
    const int64_t rows = items(&inputs[QUEUE_IDS], 4), queues = items(&inputs[IDS], 4);
    int shares = 0;
    for (int out = NEXT_OFFSETS; out <= QUEUE_OFFSETS; out++) {
        const struct bytes written = inputs[out].bytes;
        for (int i = 0; i < out; i++) shares |= touches(written.data, written.size, inputs[i].bytes);
    }
    if (rows < 0 || queues < 0 || items(&inputs[NEXT_OFFSETS], 8) != queues || items(&inputs[QUEUE_OFFSETS], 8) != rows) {
        PyErr_SetString(PyExc_ValueError, "queue_ids and ids must be int32 columns, next_offsets an int64 column as long "
                                          "as ids, and queue_offsets one as long as queue_ids");
    } else if (shares) {
        PyErr_SetString(PyExc_ValueError, "a column that is written to shares memory with another");
    } else {
        const struct queue_table table = {inputs[IDS].bytes.data, inputs[NEXT_OFFSETS].view.buf, (size_t)queues};
        if (number_rows(inputs[QUEUE_IDS].bytes.data, (size_t)rows, &table, inputs[QUEUE_OFFSETS].view.buf)) {
            Py_INCREF(Py_None);
            result = Py_None;
        } else {
            PyErr_SetString(PyExc_ValueError, "ids do not ascend, or a queue id is not among them");
        }
    }
    release(inputs, ARGUMENTS);
    return result;
}

static PyObject *write_columns(struct input *target, int64_t position, const struct record_columns *columns,
                               size_t count, const struct input *sources, int source_count) {
    const char *refusal = NULL;
    const int64_t size = columns_size(columns, count, &refusal);
    if (size < 0) {
        PyErr_SetString(PyExc_ValueError, refusal);
        return NULL;
    }
    const size_t room = target->bytes.size;
    if (position < 0 || (uint64_t)size > room || (uint64_t)position > room - (uint64_t)size) {
        PyErr_Format(PyExc_ValueError, "records of %lld bytes at position %lld do not fit into a buffer of %zu bytes",
                     (long long)size, (long long)position, room);
        return NULL;
    }
    uint8_t *at = (uint8_t *)target->view.buf + position;
    for (int i = 0; i < source_count; i++) {
        if (touches(at, (size_t)size, sources[i].bytes)) {
            PyErr_SetString(PyExc_ValueError, "a column shares memory with where the records are going to stand");
            return NULL;
        }
    }
    int is_whole;
    if (size >= GIL_RELEASE_SIZE) {
        Py_BEGIN_ALLOW_THREADS
        is_whole = encode_columns(at, size, columns, count);
        Py_END_ALLOW_THREADS
    } else {
        is_whole = encode_columns(at, size, columns, count);
    }
    if (is_whole) return PyLong_FromLongLong(size);
    PyErr_SetString(PyExc_ValueError, "the columns were changed while they were encoded");
    return NULL;
}

PyObject *py_encode_columns(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count) {
    enum {
        BUFFER, POSITION, MAGIC, SYS_FLAG, PHYSICAL_OFFSET, STORE_TIMESTAMP, BORN_HOST, STORE_HOST, TOPIC, QUEUE_IDS,
        FLAGS, QUEUE_OFFSETS, BORN_TIMESTAMPS, BODIES, BODY_STARTS, BODY_SIZES, PROPERTIES, PROPERTIES_STARTS,
        PROPERTIES_SIZES, ARGUMENTS
    };
    enum { SOURCES = ARGUMENTS - BORN_HOST };
    int64_t position;
    struct record_columns columns = {0};
    if (check_count("encode_columns", count, ARGUMENTS) < 0 || to_int64(args[POSITION], "position", &position) < 0 ||
        to_int32(args[MAGIC], "magic", &columns.shared.magic) < 0 ||
        to_int32(args[SYS_FLAG], "sys_flag", &columns.shared.sys_flag) < 0 ||
        to_int64(args[PHYSICAL_OFFSET], "physical_offset", &columns.shared.physical_offset) < 0 ||
        to_int64(args[STORE_TIMESTAMP], "store_timestamp_ms", &columns.shared.store_timestamp_ms) < 0) {
        return NULL;
    }
    struct input inputs[ARGUMENTS], *const sources = &inputs[BORN_HOST], *const target = &inputs[BUFFER];
    int places[SOURCES];
    for (int i = 0; i < SOURCES; i++) places[i] = BORN_HOST + i;
    if (to_writable(args[BUFFER], "buffer", target) < 0) return NULL;
    if (to_inputs(args, places, SOURCES, sources) < 0) {
        release(target, 1);
        return NULL;
    }
    PyObject *result = NULL;
    const int64_t rows = items(&inputs[QUEUE_OFFSETS], 8);
    if (rows < 0 || items(&inputs[QUEUE_IDS], 4) != rows || items(&inputs[FLAGS], 4) != rows ||
        items(&inputs[BORN_TIMESTAMPS], 8) != rows || items(&inputs[BODY_STARTS], 8) != rows ||
        items(&inputs[BODY_SIZES], 8) != rows || items(&inputs[PROPERTIES_STARTS], 8) != rows ||
        items(&inputs[PROPERTIES_SIZES], 8) != rows) {
        PyErr_SetString(PyExc_ValueError, "queue_ids and flags must be int32 columns, the others int64 columns, all of "
                                          "one length");
    } else {
        columns.shared.born_host = inputs[BORN_HOST].bytes;
        columns.shared.store_host = inputs[STORE_HOST].bytes;
        columns.shared.topic = inputs[TOPIC].bytes;
        columns.queue_ids = inputs[QUEUE_IDS].bytes.data;
        columns.flags = inputs[FLAGS].bytes.data;
        columns.queue_offsets = inputs[QUEUE_OFFSETS].bytes.data;
        columns.born_timestamps = inputs[BORN_TIMESTAMPS].bytes.data;
        columns.bodies = (struct ranges){inputs[BODIES].bytes, inputs[BODY_STARTS].bytes.data,
                                         inputs[BODY_SIZES].bytes.data};
        columns.properties = (struct ranges){inputs[PROPERTIES].bytes, inputs[PROPERTIES_STARTS].bytes.data,
                                             inputs[PROPERTIES_SIZES].bytes.data};
        result = write_columns(target, position, &columns, (size_t)rows, sources, SOURCES);
    }
    release(sources, SOURCES);
    release(target, 1);
    return result;
}
