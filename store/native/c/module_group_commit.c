/*
 * Group commit as a Python type: the leader syncs, the others wait and notify each other. group_commit_protocol.py
 * describes it, pure/group_commit.py is its reference.
 *
 * The GIL is its lock: a thread checks for a leader and joins the queue of waiters in one step, so no notification is
 * lost.
 */
#include "module.h"

#include <pythread.h>
#include <stddef.h>
#include <stdint.h>
#include <structmember.h>
#include <time.h>

#include "heap_type.h"

#define RECHECK_US 10000 /* a waiter that was served without a notification notices this late */
#define EAGER_ROUNDS 64
#define TIMEOUT_MAX_S 1e9

struct waiter {
    PyThread_type_lock wakeup; /* held until the waiter is notified */
    int64_t goal;
    uint64_t arrival;
    int is_listed, is_next_leader;
    struct waiter *before, *next;
};

struct group_commit {
    PyObject_HEAD
    long long synced_to;
    Py_ssize_t waiting;
    struct waiter *first, *last; /* the queue of waiters that are not notified, by arrival */
    uint64_t arrivals;
    struct waiter *idle;         /* for reuse: the notifying thread may still be releasing a lock of theirs */
    char is_led;                 /* or the next leader has been notified */
    int owed;                    /* notifications left to the threads that go to sleep next */
    uint64_t notified;           /* served waiters that were notified so far */
    uint64_t notified_before;    /* the same when the last sync began */
    int had_served_waiter;       /* a served waiter was not notified yet when it began */
    int eager_rounds;            /* syncs left after which all served waiters are notified at once */
};

static int64_t now_us(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

/* ---- the queue of waiters ---- */

/* Enters the queue by arrival: a thread that waits again keeps its place. */
static struct waiter *enter(struct group_commit *group_commit, int64_t goal, uint64_t arrival) {
    struct waiter *waiter = group_commit->idle;
    if (waiter != NULL) {
        group_commit->idle = waiter->next;
    } else {
        waiter = PyMem_Malloc(sizeof *waiter);
        if (waiter == NULL) return (struct waiter *)PyErr_NoMemory();
        waiter->wakeup = PyThread_allocate_lock();
        if (waiter->wakeup == NULL) {
            PyMem_Free(waiter);
            PyErr_SetString(PyExc_RuntimeError, "the system has no lock to give");
            return NULL;
        }
        PyThread_acquire_lock(waiter->wakeup, NOWAIT_LOCK);
    }
    waiter->goal = goal;
    waiter->arrival = arrival;
    waiter->is_listed = 1;
    waiter->is_next_leader = 0;
    waiter->before = group_commit->last;
    waiter->next = NULL;
    while (waiter->before != NULL && waiter->before->arrival > arrival) {
        waiter->next = waiter->before;
        waiter->before = waiter->before->before;
    }
    if (waiter->before != NULL) waiter->before->next = waiter;
    else group_commit->first = waiter;
    if (waiter->next != NULL) waiter->next->before = waiter;
    else group_commit->last = waiter;
    group_commit->waiting++;
    return waiter;
}

static void leave(struct group_commit *group_commit, struct waiter *waiter) {
    if (waiter->before != NULL) waiter->before->next = waiter->next;
    else group_commit->first = waiter->next;
    if (waiter->next != NULL) waiter->next->before = waiter->before;
    else group_commit->last = waiter->before;
    waiter->is_listed = 0;
    group_commit->waiting--;
}

static int is_served(const struct group_commit *group_commit, int64_t goal) { return goal <= group_commit->synced_to; }

/* Removes the first served waiter, which the caller must notify. NULL without one. */
static struct waiter *next_served(struct group_commit *group_commit) {
    struct waiter *waiter = group_commit->first;
    while (waiter != NULL && !is_served(group_commit, waiter->goal)) waiter = waiter->next;
    if (waiter != NULL) {
        leave(group_commit, waiter);
        group_commit->notified++;
    }
    return waiter;
}

static void notify_served(struct group_commit *group_commit, int all) {
    struct waiter *waiter;
    do {
        waiter = next_served(group_commit);
        if (waiter != NULL) PyThread_release_lock(waiter->wakeup);
    } while (all && waiter != NULL);
}

/* The leader is done: notifies the next leader, and served waiters. */
static void pass_lead_on(struct group_commit *group_commit) {
    struct waiter *leader = group_commit->first;
    while (leader != NULL && is_served(group_commit, leader->goal)) leader = leader->next;
    group_commit->is_led = leader != NULL;
    if (leader != NULL) {
        leave(group_commit, leader);
        leader->is_next_leader = 1;
        PyThread_release_lock(leader->wakeup);
    }
    if (group_commit->had_served_waiter && group_commit->notified == group_commit->notified_before) {
        group_commit->eager_rounds = EAGER_ROUNDS; /* no thread went to sleep during the sync, so none was notified */
        group_commit->owed = 0;
    }
    if (leader == NULL || group_commit->eager_rounds > 0) {
        notify_served(group_commit, 1);
        group_commit->owed = 0;
        if (group_commit->eager_rounds > 0) group_commit->eager_rounds--;
    } else if (group_commit->owed == 0) {
        notify_served(group_commit, 0);
    }
}

/* ---- leading and waiting ---- */

/* 0, or -1 with the error of `lead`. No interrupt can occur between setting or clearing the flag and the call. */
static int lead(struct group_commit *group_commit, PyObject *call) {
    group_commit->is_led = 1;
    if (group_commit->owed > 0) {
        group_commit->owed--;
        notify_served(group_commit, 0);
    }
    group_commit->notified_before = group_commit->notified;
    const struct waiter *waiter = group_commit->first;
    while (waiter != NULL && !is_served(group_commit, waiter->goal)) waiter = waiter->next;
    group_commit->had_served_waiter = waiter != NULL;
    PyObject *done = PyObject_CallFunctionObjArgs(call, NULL);
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    pass_lead_on(group_commit);
    PyErr_Restore(type, value, trace);
    group_commit->had_served_waiter = 0;
    if (done == NULL) return -1;
    Py_DECREF(done);
    return 0;
}

/*
 * Waits for a notification, at most `left_us`. 1: lead now; 0: check again; -1: the error of a signal handler. The
 * handler may wait here itself, so no other thread depends on this one meanwhile.
 */
static int sleep_until_notified(struct group_commit *group_commit, int64_t goal, uint64_t arrival, int64_t left_us) {
    struct waiter *waiter = enter(group_commit, goal, arrival);
    if (waiter == NULL) return -1;
    struct waiter *next = NULL;
    if (group_commit->owed > 0) {
        group_commit->owed--;
        next = next_served(group_commit);
    }
    /* Notify without the GIL, so that the notified thread finds it free. */
    PyThreadState *const thread = PyEval_SaveThread();
    if (next != NULL) PyThread_release_lock(next->wakeup);
    const PyLockStatus status = PyThread_acquire_lock_timed(waiter->wakeup, left_us, 1);
    PyEval_RestoreThread(thread);
    int is_notified = 1, is_signalled = 0;
    if (status != PY_LOCK_ACQUIRED) {
        if (waiter->is_listed) {
            leave(group_commit, waiter);
            is_notified = 0;
            is_signalled = PyErr_CheckSignals() < 0;
        } else {
            PyThread_acquire_lock(waiter->wakeup, WAIT_LOCK); /* the thread that removed it is about to notify it */
        }
    }
    const int is_to_lead = is_notified && waiter->is_next_leader;
    waiter->next = group_commit->idle;
    group_commit->idle = waiter;
    if (is_notified && !is_to_lead) group_commit->owed++;
    return is_signalled ? -1 : is_to_lead;
}

/* 1: synced, or has led if `is_to_lead`; 0: timeout; -1: an error. */
static int wait_for(struct group_commit *group_commit, int64_t goal, int is_to_lead, PyObject *call,
                    int64_t deadline_us) {
    const uint64_t arrival = group_commit->arrivals++;
    int leads = 0;
    while (leads || !is_served(group_commit, goal)) {
        if (leads || !group_commit->is_led) {
            if (lead(group_commit, call) < 0) return -1;
            if (is_to_lead) return 1;
            leads = 0;
            continue;
        }
        int64_t left_us = RECHECK_US;
        if (deadline_us >= 0) {
            const int64_t until_us = deadline_us - now_us();
            if (until_us <= 0) return 0;
            if (until_us < left_us) left_us = until_us;
        }
        leads = sleep_until_notified(group_commit, goal, arrival, left_us);
        if (leads < 0) return -1;
    }
    return 1;
}

/* ---- the type ---- */

static PyObject *group_commit_new(PyTypeObject *type, PyObject *arguments, PyObject *names) {
    long long synced_to;
    if (names != NULL && PyDict_Size(names) != 0) {
        PyErr_SetString(PyExc_TypeError, "GroupCommit() takes no keyword arguments");
        return NULL;
    }
    if (!PyArg_ParseTuple(arguments, "L", &synced_to)) return NULL;
    struct group_commit *self = (struct group_commit *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
    if (self != NULL) self->synced_to = synced_to;
    return (PyObject *)self;
}

static void group_commit_dealloc(struct group_commit *self) {
    PyTypeObject *type = Py_TYPE((PyObject *)self);
    while (self->idle != NULL) {
        struct waiter *waiter = self->idle;
        self->idle = waiter->next;
        PyThread_release_lock(waiter->wakeup);
        PyThread_free_lock(waiter->wakeup);
        PyMem_Free(waiter);
    }
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

/* The deadline by the monotonic clock; -1 for none. Returns 0, or -1 with an error. */
static int to_deadline_us(PyObject *timeout_s, int64_t *deadline_us) {
    *deadline_us = -1;
    if (timeout_s == Py_None) return 0;
    double seconds = PyFloat_AsDouble(timeout_s);
    if (seconds == -1.0 && PyErr_Occurred()) return -1;
    if (!(seconds > 0)) seconds = 0; /* also for a NaN */
    if (seconds > TIMEOUT_MAX_S) seconds = TIMEOUT_MAX_S;
    *deadline_us = now_us() + (int64_t)(seconds * 1e6);
    return 0;
}

static PyObject *py_wait_for(struct group_commit *self, PyObject *const *arguments, Py_ssize_t count) {
    enum { GOAL, CALL, TIMEOUT, ARGUMENTS };
    int64_t goal, deadline_us;
    if (check_count("wait_for", count, ARGUMENTS) < 0 || to_int64(arguments[GOAL], "goal", &goal) < 0) return NULL;
    if (is_served(self, goal)) return Py_NewRef(Py_True);
    if (to_deadline_us(arguments[TIMEOUT], &deadline_us) < 0) return NULL;
    const int result = wait_for(self, goal, 0, arguments[CALL], deadline_us);
    return result < 0 ? NULL : PyBool_FromLong(result);
}

static PyObject *py_run_exclusive(struct group_commit *self, PyObject *call) {
    if (wait_for(self, INT64_MAX, 1, call, -1) < 0) return NULL;
    return Py_NewRef(Py_None);
}

static PyMethodDef group_commit_methods[] = {
    {"wait_for", (PyCFunction)(void (*)(void))py_wait_for, METH_FASTCALL,
     "wait_for(goal, lead, timeout_s, /)\n--\n\nWhether `synced_to` reached the goal, by this lead() or another's."},
    {"run_exclusive", (PyCFunction)py_run_exclusive, METH_O,
     "run_exclusive(call, /)\n--\n\nCall `call` while no thread leads."},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef group_commit_members[] = {
    {"synced_to", T_LONGLONG, offsetof(struct group_commit, synced_to), 0, NULL},
    {"waiting", T_PYSSIZET, offsetof(struct group_commit, waiting), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot group_commit_slots[] = {
    {Py_tp_new, group_commit_new},
    {Py_tp_dealloc, group_commit_dealloc},
    {Py_tp_methods, group_commit_methods},
    {Py_tp_members, group_commit_members},
    {Py_tp_doc, "Group commit; pure/group_commit.py does the same in Python."},
    {0, NULL},
};

static PyType_Spec group_commit_spec = {
    .name = "flightlog.store.native._kernel.GroupCommit",
    .basicsize = sizeof(struct group_commit),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = group_commit_slots,
};

int add_group_commit_type(PyObject *module) { return add_type(module, &group_commit_spec, NULL); }
