/*
 * The kernel as a Python module, called with any arguments: right ones, wrong ones, and buffers that share memory. It
 * returns or raises one of four errors; what it raises for is left as it was; and it keeps no object and no buffer.
 *
 * A module itself, which the Makefile's `fuzz_module` loads into a Python: run(arguments) is the fuzzer.
 */
#include "module.c"
#define to_inputs to_columns /* each file has its own */
#include "module_columns.c"
#undef to_inputs
#include "module_group_commit.c"
#include "module_listing.c"
#include "module_messages.c"
#include "module_pages.c"
#include "module_put.c"
#include "module_texts.c"

#include "fuzz.h"

#define ARGUMENTS_MAX 19
#define POOL_SIZE 4096 /* the memory that the buffers of one call share, or have a part of each */

int LLVMFuzzerRunDriver(int *count, char ***arguments, int (*target)(const uint8_t *data, size_t size));

/* Two properties and the sizes, or as many of these nine buffers as are given. */
static PyObject *call_property_texts(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
    PyObject *const properties = Py_BuildValue("((OOOO)(OOOO))", arguments[0], arguments[1], arguments[2], arguments[3],
                                               arguments[4], arguments[5], arguments[6], arguments[7]);
    CHECK(properties != NULL);
    PyObject *const given[] = {properties, arguments[8]};
    PyObject *result = py_property_texts(module, given, count == 9 ? 2 : 1);
    Py_DECREF(properties);
    return result;
}

/* i: integer, b: buffer, o: true or false */
static const struct function {
    const char *name;
    PyObject *(*call)(PyObject *module, PyObject *const *arguments, Py_ssize_t count);
    const char *arguments;
} functions[] = {
    {"walk", py_walk, "biiiob"},
    {"encode_record", py_encode_record, "biiiiiiiibibiibbb"},
    {"walk_places", py_walk_places, "bbbiob"},
    {"gather", py_gather, "bbbb"},
    {"encode_columns", py_encode_columns, "biiiiibbbbbbbbbbbbb"},
    {"number_rows", py_number_rows, "bbbb"},
    {"property_texts", call_property_texts, "bbbbbbbbb"},
    {"list_rows", py_list_rows, "bbbbbbbbb"},
    {"link_keys", py_link_keys, "iibbbbbb"},
    {"set_heads", py_set_heads, "iibbb"},
    {"populate", py_populate, "bii"},
    {"masked_crc32", NULL, "b"},
    {"_masked_crc32_all_ways", NULL, "b"},
};

/* ---- arguments ---- */

struct call {
    struct source source;
    uint8_t *pool;
    struct bytes copies[ARGUMENTS_MAX]; /* memory of one argument alone, of exactly its size; NULL if it has none */
    struct bytes before[ARGUMENTS_MAX]; /* what stood in every buffer before the call */
    PyObject *arguments[ARGUMENTS_MAX];
    Py_ssize_t refcounts[ARGUMENTS_MAX];
    Py_ssize_t count;
};

static PyObject *some_wrong_object(uint8_t kind) {
    switch (kind % 4) {
    case 0: return Py_BuildValue("");
    case 1: return PyFloat_FromDouble(1.5);
    case 2: return PyUnicode_FromString("text");
    default: return PyLong_FromString(kind & 4 ? "-1000000000000000000000000" : "9223372036854775808", NULL, 10);
    }
}

static PyObject *take_integer(struct source *source) {
    static const int32_t magics[] = {MAGIC_V1, MAGIC_V2, MAGIC_V1, MAGIC_BLANK};
    const uint8_t kind = (uint8_t)take(source, 1);
    switch (kind) {
    case 255: return some_wrong_object((uint8_t)take(source, 1));
    case 254: return PyLong_FromLongLong((int64_t)take(source, 8));
    case 253: return PyLong_FromLong((int32_t)take(source, 4));
    case 252: return PyLong_FromLong((int32_t)take(source, 2));
    case 251:
    case 250:
    case 249:
    case 248: return PyLong_FromLong(magics[kind - 248]);
    default: return PyLong_FromLong(kind);
    }
}

/*
 * Some bytes of the pool, and how they are handed over: mostly a copy that ends where the buffer does, so that the first
 * byte beyond is seen; or the pool's own, so that two arguments may share them.
 */
static PyObject *take_buffer(struct call *call, Py_ssize_t i) {
    const uint8_t kind = (uint8_t)take(&call->source, 1);
    const size_t start = take(&call->source, 2) % (POOL_SIZE + 1);
    size_t size = take(&call->source, 2);
    if (size > POOL_SIZE - start) size = POOL_SIZE - start;
    char *const at = (char *)call->pool + start;
    call->before[i] = copy_of((const uint8_t *)at, size);
    switch (kind % 16) {
    case 15: return some_wrong_object((uint8_t)take(&call->source, 1));
    case 14: return PyByteArray_FromStringAndSize(at, (Py_ssize_t)size);
    case 13: return PyMemoryView_FromMemory(at, (Py_ssize_t)size, PyBUF_READ);
    case 12: {
        PyObject *view = PyMemoryView_FromMemory(at, (Py_ssize_t)size, PyBUF_WRITE);
        PyObject *step = PyLong_FromLong(2), *slice = PySlice_New(NULL, NULL, step);
        PyObject *strided = PyObject_GetItem(view, slice);
        Py_DECREF(view), Py_DECREF(step), Py_DECREF(slice);
        return strided;
    }
    case 11:
    case 10: return PyBytes_FromStringAndSize(at, (Py_ssize_t)size);
    case 9:
    case 8: return PyMemoryView_FromMemory(at, (Py_ssize_t)size, PyBUF_WRITE);
    default:
        call->copies[i] = copy_of((const uint8_t *)at, size);
        return PyMemoryView_FromMemory((char *)(uintptr_t)call->copies[i].data, (Py_ssize_t)size, PyBUF_WRITE);
    }
}

static PyObject *take_argument(struct call *call, char kind, Py_ssize_t i) {
    switch (kind) {
    case 'i': return take_integer(&call->source);
    case 'o': return PyBool_FromLong((long)take(&call->source, 1) & 1);
    default: return take_buffer(call, i);
    }
}

/* ---- the call, and what must hold after it ---- */

static void check_error(void) {
    CHECK(PyErr_ExceptionMatches(PyExc_TypeError) || PyErr_ExceptionMatches(PyExc_OverflowError) ||
          PyErr_ExceptionMatches(PyExc_BufferError) || PyErr_ExceptionMatches(PyExc_ValueError));
    PyErr_Clear();
}

/* A buffer that something still holds can be neither released nor resized. */
static void check_let_go(PyObject *argument) {
    const int resizes = PyByteArray_Check(argument);
    if (!resizes && !PyMemoryView_Check(argument)) return;
    PyObject *none = PyObject_CallMethod(argument, resizes ? "clear" : "release", NULL);
    CHECK(none != NULL);
    Py_DECREF(none);
}

static int is_part(const uint8_t *data, uint64_t position, uint32_t size, struct bytes part) {
    return size == part.size && (size == 0 || memcmp(data + position, part.data, size) == 0);
}

/* The record that was written is the one that was asked for, whatever of it lay where it now stands. */
static void check_encoded(const struct call *call, int32_t size) {
    enum { BODY = 14, TOPIC, PROPERTIES };
    Py_buffer target;
    struct frame_row row;
    size_t rows = 0;
    CHECK(PyObject_GetBuffer(call->arguments[0], &target, PyBUF_SIMPLE) == 0);
    const int64_t start = PyLong_AsLongLong(call->arguments[1]), offset = PyLong_AsLongLong(call->arguments[6]);
    CHECK(start >= 0 && start + size <= target.len);
    const uint8_t *at = (const uint8_t *)target.buf + start;
    int64_t position = 0;
    CHECK(walk_frames(at, &position, size, offset, 1, (uint8_t *)&row, 1, &rows) == END);
    CHECK(rows == 1 && position == size && row.crc_ok == 1);
    CHECK(is_part(at, row.body_position, row.body_size, call->before[BODY]));
    CHECK(is_part(at, row.topic_position, row.topic_size, call->before[TOPIC]));
    CHECK(is_part(at, row.properties_position, row.properties_size, call->before[PROPERTIES]));
    PyBuffer_Release(&target);
}

static PyObject *call_it(const struct function *function, const struct call *call) {
    if (function->call != NULL) return function->call(NULL, call->arguments, call->count);
    if (function->name[0] == '_') return py_masked_crc32_all_ways(NULL, call->arguments[0]);
    return py_masked_crc32(NULL, call->arguments[0]);
}

static int one_call(const uint8_t *data, size_t size) {
    struct call call = {.source = {data, size}, .pool = exactly(POOL_SIZE)};
    const struct function *function = &functions[take(&call.source, 1) % (sizeof functions / sizeof *functions)];
    const size_t filled = take(&call.source, 2);
    call.count = (Py_ssize_t)strlen(function->arguments);
    /* The pool comes from the input's end, where inputs that are cut do not shift it. */
    memset(call.pool, 0, POOL_SIZE);
    const size_t given = filled < call.source.size ? filled : call.source.size;
    memcpy(call.pool, call.source.data + call.source.size - given, given < POOL_SIZE ? given : POOL_SIZE);
    call.source.size -= given;
    for (Py_ssize_t i = 0; i < call.count; i++) {
        call.arguments[i] = take_argument(&call, function->arguments[i], i);
        CHECK(call.arguments[i] != NULL);
    }
    for (Py_ssize_t i = 0; i < call.count; i++) call.refcounts[i] = Py_REFCNT(call.arguments[i]);
    if (function->call != NULL && take(&call.source, 1) == 255) call.count--; /* one argument too few */
    const struct bytes before = copy_of(call.pool, POOL_SIZE);

    PyObject *result = call_it(function, &call);
    CHECK((result == NULL) == (PyErr_Occurred() != NULL));
    if (result == NULL) {
        check_error();
        CHECK(memcmp(call.pool, before.data, POOL_SIZE) == 0);
        for (Py_ssize_t i = 0; i < call.count; i++) {
            const struct bytes copy = call.copies[i];
            CHECK(copy.size == 0 || memcmp(copy.data, call.before[i].data, copy.size) == 0);
        }
    } else if (function->call == py_encode_record) {
        check_encoded(&call, (int32_t)PyLong_AsLong(result));
    }
    Py_XDECREF(result);
    CHECK(PyErr_Occurred() == NULL);
    call.count = (Py_ssize_t)strlen(function->arguments);
    for (Py_ssize_t i = 0; i < call.count; i++) CHECK(Py_REFCNT(call.arguments[i]) == call.refcounts[i]);
    for (Py_ssize_t i = 0; i < call.count; i++) {
        check_let_go(call.arguments[i]);
        Py_DECREF(call.arguments[i]);
        drop(call.copies[i]);
        drop(call.before[i]);
    }
    drop(before);
    free(call.pool);
    return 0;
}

/* ---- the module ---- */

static PyObject *run(PyObject *Py_UNUSED(module), PyObject *given) {
    static char *arguments[64];
    int count = (int)PyList_Size(given);
    if (count < 1 || count > 63) {
        if (!PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "1 to 63 arguments");
        return NULL;
    }
    for (int i = 0; i < count; i++) {
        PyObject *bytes = PyUnicode_EncodeFSDefault(PyList_GetItem(given, i)); /* the fuzzer keeps what it points at */
        if (bytes == NULL) return NULL;
        arguments[i] = PyBytes_AsString(bytes);
    }
    char **argument_list = arguments;
    crc32_prepare();
    return PyLong_FromLong(LLVMFuzzerRunDriver(&count, &argument_list, one_call));
}

static PyMethodDef fuzz_methods[] = {{"run", run, METH_O, NULL}, {NULL, NULL, 0, NULL}};
static struct PyModuleDef fuzz_definition = {
    .m_base = PyModuleDef_HEAD_INIT, .m_name = "fuzz_module", .m_size = -1, .m_methods = fuzz_methods};

PyMODINIT_FUNC PyInit_fuzz_module(void);
PyMODINIT_FUNC PyInit_fuzz_module(void) { return PyModule_Create(&fuzz_definition); }
