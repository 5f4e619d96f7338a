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
    Py_INCREF(kept->object);
    return kept->object;
}

PyObject *fast_path_new_result(const struct fast_path *fast_path) {
    PyObject *made = fast_path->allocate_result(fast_path->result_type, RESULT_FIELDS);
    if (made == NULL) return NULL;
    /* The collector shows it from here on, also while it waits for its put: no field may be empty. */
    for (int i = 0; i < RESULT_FIELDS; i++) {
        PyObject *const field = i == STATUS_FIELD ? fast_path->status : i == STORE_HOST_FIELD ? fast_path->store_host : Py_None;
        Py_INCREF(field);
        PyTuple_SetItem(made, i, field);
    }
    return made;
}

/* From this version on a tuple keeps its hash once it was asked for it, and filled anew it would answer with the old one. */
#define KEEPS_HASHES 0x030E0000

int fast_path_may_refill(void) { return Py_Version < KEEPS_HASHES; }

PyObject *fast_path_kept_result(const struct fast_path *fast_path) {
    if (!fast_path_may_refill()) return NULL;
    for (int i = 0; i < FAST_PATH_RESULTS_KEPT; i++) {
        PyObject *const result = fast_path->results[i];
        if (result != NULL && Py_REFCNT(result) == 1) return result;
    }
    return NULL;
}

void fast_path_keep_result(struct fast_path *fast_path, PyObject *result) {
    PyObject *const before = fast_path->results[fast_path->next_result];
    Py_INCREF(result);
    fast_path->results[fast_path->next_result] = result;
    fast_path->next_result = (fast_path->next_result + 1) % FAST_PATH_RESULTS_KEPT;
    Py_XDECREF(before);
}

void fast_path_fill_result(PyObject *result, PyObject *topic, PyObject *queue_id, PyObject *const numbers[4]) {
    Py_INCREF(topic);
    Py_INCREF(queue_id);
    PyTuple_SetItem(result, TOPIC_FIELD, topic);
    PyTuple_SetItem(result, QUEUE_ID_FIELD, queue_id);
    for (int i = 0; i < 4; i++) PyTuple_SetItem(result, NUMBER_FIELDS + i, numbers[i]);
}
