/* Results of ordinary puts, and what they are made of. */
#include "lane.h"

/* The fields of a PutResult. */
enum { STATUS_FIELD, TOPIC_FIELD, QUEUE_ID_FIELD, NUMBER_FIELDS, STORE_HOST_FIELD = 7, RESULT_FIELDS };

PyObject *lane_number(struct kept_number *kept, int64_t number) {
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

PyObject *lane_new_result(const struct lane *lane) {
    PyObject *made = lane->allocate_result(lane->result_type, RESULT_FIELDS);
    if (made == NULL) return NULL;
    /* The collector shows it from here on, also while it waits for its put: no field may be empty. */
    for (int i = 0; i < RESULT_FIELDS; i++) {
        PyObject *const field = i == STATUS_FIELD ? lane->status : i == STORE_HOST_FIELD ? lane->store_host : Py_None;
        Py_INCREF(field);
        PyTuple_SetItem(made, i, field);
    }
    return made;
}

/* From this version on a tuple keeps its hash once it was asked for it, and filled anew it would answer with the old one. */
#define KEEPS_HASHES 0x030E0000

int lane_may_refill(void) { return Py_Version < KEEPS_HASHES; }

PyObject *lane_kept_result(const struct lane *lane) {
    if (!lane_may_refill()) return NULL;
    for (int i = 0; i < LANE_RESULTS_KEPT; i++) {
        PyObject *const result = lane->results[i];
        if (result != NULL && Py_REFCNT(result) == 1) return result;
    }
    return NULL;
}

void lane_keep_result(struct lane *lane, PyObject *result) {
    PyObject *const before = lane->results[lane->next_result];
    Py_INCREF(result);
    lane->results[lane->next_result] = result;
    lane->next_result = (lane->next_result + 1) % LANE_RESULTS_KEPT;
    Py_XDECREF(before);
}

void lane_fill_result(PyObject *result, PyObject *topic, PyObject *queue_id, PyObject *const numbers[4]) {
    Py_INCREF(topic);
    Py_INCREF(queue_id);
    PyTuple_SetItem(result, TOPIC_FIELD, topic);
    PyTuple_SetItem(result, QUEUE_ID_FIELD, queue_id);
    for (int i = 0; i < 4; i++) PyTuple_SetItem(result, NUMBER_FIELDS + i, numbers[i]);
}
