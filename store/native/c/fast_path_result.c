/* Results of ordinary puts, and what they are made of. */
#include "fast_path.h"

/* The fields of a PutResult. */
enum { STATUS_FIELD, TOPIC_FIELD, QUEUE_ID_FIELD, NUMBER_FIELDS, STORE_HOST_FIELD = 7, RESULT_FIELDS };

PyObject *fast_path_number(struct kept_number *kept, int64_t number) {
    if (kept->object == NULL || kept->number != number) {
        PyObject *object = PyLong_FromLongLong(number), *before = kept->object;
        if (object == NULL) return NULL;
        kept->object = object;
        kept->number = number;
        Py_XDECREF(before);
    }
    return Py_NewRef(kept->object);
}

int fast_path_results_init(struct fast_path *fast_path) {
    PyObject *blank = PyTuple_New(RESULT_FIELDS);
    for (int i = 0; blank != NULL && i < RESULT_FIELDS; i++) {
        PyTuple_SetItem(blank, i, Py_NewRef(i == STATUS_FIELD       ? fast_path->status
                                            : i == STORE_HOST_FIELD ? fast_path->store_host
                                                                    : Py_None));
    }
    fast_path->blank_result = blank == NULL ? NULL : PyTuple_Pack(1, blank);
    Py_XDECREF(blank);
    /* What a named tuple itself is made with. Its own __new__ is written in Python. */
    fast_path->make_result = (newfunc)PyType_GetSlot(&PyTuple_Type, Py_tp_new);
    return fast_path->blank_result == NULL ? -1 : 0;
}

PyObject *fast_path_new_result(const struct fast_path *fast_path) {
    return fast_path->make_result(fast_path->result_type, fast_path->blank_result, NULL);
}

void fast_path_fill_result(PyObject *result, PyObject *topic, PyObject *queue_id, PyObject *const numbers[4]) {
    PyTuple_SetItem(result, TOPIC_FIELD, Py_NewRef(topic));
    PyTuple_SetItem(result, QUEUE_ID_FIELD, Py_NewRef(queue_id));
    for (int i = 0; i < 4; i++) PyTuple_SetItem(result, NUMBER_FIELDS + i, numbers[i]);
}
