/*
 * The fast path as Python has it: driven by fast_path_target.py, which says what every input does and what must hold.
 *
 * A module itself, which the Makefile's `fuzz_fast_path` loads into a Python: `FastPath`, `MessageFields`,
 * `ResultFields`, and run(arguments, one), the fuzzer.
 */
#include "fast_path.h"
#include "message_fields.h"
#include "module.h"
#include "result_fields.h"

#include "fuzz.h"

int LLVMFuzzerRunDriver(int *count, char ***arguments, int (*target)(const uint8_t *data, size_t size));

static PyObject *one; /* takes an input, and raises where something does not hold */

static int one_input(const uint8_t *data, size_t size) {
    PyObject *input = PyBytes_FromStringAndSize((const char *)data, (Py_ssize_t)size);
    CHECK(input != NULL);
    PyObject *done = PyObject_CallFunctionObjArgs(one, input, NULL);
    if (done == NULL) PyErr_Print();
    CHECK(done != NULL);
    Py_DECREF(done);
    Py_DECREF(input);
    return 0;
}

static PyObject *run(PyObject *Py_UNUSED(module), PyObject *given) {
    static char *arguments[64];
    PyObject *names;
    if (!PyArg_ParseTuple(given, "O!O", &PyList_Type, &names, &one)) return NULL;
    int count = (int)PyList_Size(names);
    if (count < 1 || count > 63) {
        PyErr_SetString(PyExc_ValueError, "1 to 63 arguments");
        return NULL;
    }
    for (int i = 0; i < count; i++) {
        PyObject *bytes = PyUnicode_EncodeFSDefault(PyList_GetItem(names, i)); /* the fuzzer keeps what it points at */
        if (bytes == NULL) return NULL;
        arguments[i] = PyBytes_AsString(bytes);
    }
    char **argument_list = arguments;
    crc32_prepare();
    return PyLong_FromLong(LLVMFuzzerRunDriver(&count, &argument_list, one_input));
}

static PyMethodDef fuzz_methods[] = {{"run", run, METH_VARARGS, NULL}, {NULL, NULL, 0, NULL}};
static struct PyModuleDef fuzz_definition = {
    .m_base = PyModuleDef_HEAD_INIT, .m_name = "fuzz_fast_path", .m_size = -1, .m_methods = fuzz_methods};

PyMODINIT_FUNC PyInit_fuzz_fast_path(void);
PyMODINIT_FUNC PyInit_fuzz_fast_path(void) {
    PyObject *module = PyModule_Create(&fuzz_definition);
    if (module != NULL && (add_message_fields_type(module) < 0 || add_result_fields_type(module) < 0 ||
                           add_fast_path_type(module) < 0)) {
        Py_DECREF(module);
        return NULL;
    }
    return module;
}
