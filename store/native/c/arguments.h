/* Python arguments in C: integers and buffers, and the errors for anything else. pure/arguments.py does the same. */
#ifndef FLIGHTLOG_ARGUMENTS_H
#define FLIGHTLOG_ARGUMENTS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <string.h>

#if !defined(_WIN32)
#include <sched.h>
#endif

#include "encode.h"

/* Below this size, releasing and reacquiring the GIL costs more than other threads wait for it. */
#define GIL_RELEASE_SIZE ((Py_ssize_t)64 << 10)

/* Releases the GIL until PyEval_RestoreThread. The thread that waits for it is often on this core, where a kernel
 * without preemption would leave it waiting for milliseconds, so it gets the core first. */
static inline PyThreadState *let_others_run(void) {
    PyThreadState *const thread = PyEval_SaveThread();
#if !defined(_WIN32)
    sched_yield();
#endif
    return thread;
}

/* ---- integers ---- */

static inline int to_int64(PyObject *object, const char *name, int64_t *value) {
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

static inline int to_int32(PyObject *object, const char *name, int32_t *value) {
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

static inline int check_count(const char *function, Py_ssize_t given, Py_ssize_t expected) {
    if (given == expected) return 0;
    PyErr_Format(PyExc_TypeError, "%s() takes %zd positional arguments (%zd given)", function, expected, given);
    return -1;
}

/* ---- buffers ---- */

struct input {
    struct bytes bytes;
    Py_buffer view; /* set only for a buffer that is held */
    int held;
};

/* Any C-contiguous buffer. A bytes object never changes and the caller keeps it alive: its address will do. */
static inline int to_bytes(PyObject *object, struct input *input) {
    if (Py_IS_TYPE(object, &PyBytes_Type)) {
        input->bytes.data = (const uint8_t *)PyBytes_AsString(object);
        input->bytes.size = (size_t)PyBytes_Size(object);
        input->held = 0;
        return 0;
    }
    if (PyObject_GetBuffer(object, &input->view, PyBUF_SIMPLE) < 0) {
        /* what some exporters raise: for an array that is not C-contiguous, for a closed mmap */
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

static inline int to_writable(PyObject *object, const char *name, struct input *input) {
    if (to_bytes(object, input) < 0) return -1;
    if (input->held && !input->view.readonly) return 0;
    if (input->held) PyBuffer_Release(&input->view);
    input->held = 0;
    PyErr_Format(PyExc_BufferError, "%s is read-only", name);
    return -1;
}

static inline void release(struct input *inputs, int count) {
    for (int i = 0; i < count; i++) {
        if (inputs[i].held) PyBuffer_Release(&inputs[i].view);
    }
}

static inline int touches(const uint8_t *at, size_t size, struct bytes bytes) {
    const uintptr_t first = (uintptr_t)at, other = (uintptr_t)bytes.data;
    return bytes.size > 0 && other < first + size && first < other + bytes.size;
}

#endif
