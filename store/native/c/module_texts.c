/* The module's property_texts(), see text_columns.h. */
#include "module.h"

#include "text_columns.h"

enum { HEAD, DATA, STARTS, SIZES, PARTS };

static int to_column(PyObject *object, struct input inputs[PARTS]) {
    if (!PyTuple_CheckExact(object) || PyTuple_Size(object) != PARTS) {
        PyErr_SetString(PyExc_TypeError, "property_texts() takes a tuple (head, data, starts, sizes) for each property");
        return -1;
    }
    for (int part = 0; part < PARTS; part++) {
        if (to_bytes(PyTuple_GetItem(object, part), &inputs[part]) < 0) return -1;
    }
    return 0;
}

/* 0 unless starts and sizes are columns of `rows` numbers, or of a single one. */
static int describe(const struct input inputs[PARTS], size_t rows, struct property_column *column) {
    const size_t size = inputs[STARTS].bytes.size;
    if (inputs[SIZES].bytes.size != size || (size != 8 * rows && size != 8)) return 0;
    column->head = inputs[HEAD].bytes;
    column->values = (struct ranges){inputs[DATA].bytes, inputs[STARTS].bytes.data, inputs[SIZES].bytes.data};
    column->is_constant = size == 8;
    return 1;
}

static PyObject *make_texts(const struct property_column *columns, size_t column_count, size_t rows,
                            uint8_t *text_sizes) {
    /* The cost of a value in bytes: checking one takes as long as copying so many. */
    const int is_long = rows >= (size_t)GIL_RELEASE_SIZE / 16;
    int64_t size;
    if (is_long) {
        Py_BEGIN_ALLOW_THREADS
        size = texts_size(columns, column_count, rows);
        Py_END_ALLOW_THREADS
    } else {
        size = texts_size(columns, column_count, rows);
    }
    if (size < 0) {
        PyErr_SetString(PyExc_ValueError, "a value lies outside of its buffer, or the texts exceed 63 bits");
        return NULL;
    }
    PyObject *texts = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)size);
    if (texts == NULL) return NULL;
    uint8_t *const out = (uint8_t *)PyBytes_AsString(texts);
    int written;
    if (is_long || size >= GIL_RELEASE_SIZE) {
        Py_BEGIN_ALLOW_THREADS
        written = write_texts(columns, column_count, rows, out, size, text_sizes);
        Py_END_ALLOW_THREADS
    } else {
        written = write_texts(columns, column_count, rows, out, size, text_sizes);
    }
    if (written != 0) return Py_BuildValue("(NO)", texts, written == 2 ? Py_True : Py_False);
    Py_DECREF(texts);
    PyErr_SetString(PyExc_ValueError, "the columns were changed while they were taken");
    return NULL;
}

static PyObject *with_inputs(PyObject *properties, size_t column_count, struct input *inputs, const struct input *out,
                             struct property_column *columns) {
    size_t held = 0;
    for (; held < column_count; held++) {
        if (to_column(PyTuple_GetItem(properties, (Py_ssize_t)held), inputs + held * PARTS) < 0) return NULL;
    }
    const size_t rows = out->bytes.size / 8;
    int is_right = out->bytes.size % 8 == 0, shares = 0;
    for (size_t i = 0; i < column_count; i++) {
        is_right = is_right && describe(inputs + i * PARTS, rows, &columns[i]);
        for (int part = 0; part < PARTS; part++) {
            shares |= touches(out->bytes.data, out->bytes.size, inputs[i * PARTS + (size_t)part].bytes);
        }
    }
    if (!is_right) {
        PyErr_SetString(PyExc_ValueError, "starts and sizes must be int64 columns as long as text_sizes, or of one row");
    } else if (shares) {
        PyErr_SetString(PyExc_ValueError, "text_sizes shares memory with a property");
    } else {
        return make_texts(columns, column_count, rows, out->view.buf);
    }
    return NULL;
}

PyObject *py_property_texts(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count) {
    enum { PROPERTIES, TEXT_SIZES, ARGUMENTS };
    if (check_count("property_texts", count, ARGUMENTS) < 0) return NULL;
    if (!PyTuple_CheckExact(args[PROPERTIES])) {
        PyErr_SetString(PyExc_TypeError, "property_texts() takes a tuple of properties");
        return NULL;
    }
    const size_t column_count = (size_t)PyTuple_Size(args[PROPERTIES]);
    struct input out, *const inputs = PyMem_Calloc(column_count * PARTS, sizeof *inputs);
    struct property_column *const columns = PyMem_Calloc(column_count, sizeof *columns);
    PyObject *result = NULL;
    if (inputs == NULL || columns == NULL) {
        PyErr_NoMemory();
    } else if (to_writable(args[TEXT_SIZES], "text_sizes", &out) == 0) {
        result = with_inputs(args[PROPERTIES], column_count, inputs, &out, columns);
        for (size_t i = 0; i < column_count; i++) release(inputs + i * PARTS, PARTS); /* also those never acquired */
        release(&out, 1);
    }
    PyMem_Free(inputs);
    PyMem_Free(columns);
    return result;
}
