/*
 * The group commit as a type of Python: who leads, who waits, and who wakes whom. See group_commit_protocol.py for what
 * it does, and pure/group_commit.py, its reference.
 *
 * The GIL is its lock: nobody comes between the look at who leads and the place in the line, so no ring can be lost.
 */
#include "module.h"

#include <pythread.h>
#include <stddef.h>
#include <stdint.h>
#include <structmember.h>
#include <time.h>

#include "heap_type.h"

#define LOOK_EVERY_US 10000  /* who is served though nobody rings it finds out by itself */
#define EAGER_ROUNDS 64
#define TIMEOUT_MAX_S 1e9

struct waiter {
    PyThread_type_lock bell; /* taken until it is rung */
    int64_t goal;
    uint64_t arrival;
    int is_listed, is_heir;
    struct waiter *before, *next;
};

struct group_commit {
    PyObject_HEAD
    long long synced_to;
    Py_ssize_t waiting;
    struct waiter *first, *last; /* who waits and is not rung yet, as they came */
    uint64_t arrivals;
    struct waiter *idle;         /* to be used again: a bell may still be in the hands of who rang it */
    char is_led;                 /* or somebody is rung who is to lead next */
    int owed;                    /* rings that those are to give who go to sleep next */
    uint64_t rings;              /* of those who were served */
    uint64_t rings_before;       /* the last sync began */
    int was_line_served;         /* when it began somebody who was served still waited */
    int eager_rounds;            /* so many syncs are left after which nobody is trusted to come back */
};

static int64_t now_us(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

/* ---- the line ---- */

/* Into the line, before those who came later: who was in it already keeps its place. */
static struct waiter *enter(struct group_commit *group_commit, int64_t goal, uint64_t arrival) {
    struct waiter *waiter = group_commit->idle;
    if (waiter != NULL) {
        group_commit->idle = waiter->next;
    } else {
        waiter = PyMem_Malloc(sizeof *waiter);
        if (waiter == NULL) return (struct waiter *)PyErr_NoMemory();
        waiter->bell = PyThread_allocate_lock();
        if (waiter->bell == NULL) {
            PyMem_Free(waiter);
            PyErr_SetString(PyExc_RuntimeError, "the system has no lock to give");
            return NULL;
        }
        PyThread_acquire_lock(waiter->bell, NOWAIT_LOCK);
    }
    waiter->goal = goal;
    waiter->arrival = arrival;
    waiter->is_listed = 1;
    waiter->is_heir = 0;
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

/* The first who is served, out of the line: to be rung by the caller. NULL: nobody. */
static struct waiter *next_served(struct group_commit *group_commit) {
    struct waiter *waiter = group_commit->first;
    while (waiter != NULL && !is_served(group_commit, waiter->goal)) waiter = waiter->next;
    if (waiter != NULL) {
        leave(group_commit, waiter);
        group_commit->rings++;
    }
    return waiter;
}

static void ring_served(struct group_commit *group_commit, int all) {
    struct waiter *waiter;
    do {
        waiter = next_served(group_commit);
        if (waiter != NULL) PyThread_release_lock(waiter->bell);
    } while (all && waiter != NULL);
}

/* Somebody leads no more, or was to and does not. */
static void hand_on(struct group_commit *group_commit) {
    struct waiter *leader = group_commit->first;
    while (leader != NULL && is_served(group_commit, leader->goal)) leader = leader->next;
    group_commit->is_led = leader != NULL;
    if (leader != NULL) {
        leave(group_commit, leader);
        leader->is_heir = 1;
        PyThread_release_lock(leader->bell);
    }
    if (group_commit->was_line_served && group_commit->rings == group_commit->rings_before) {
        group_commit->eager_rounds = EAGER_ROUNDS; /* somebody did not come back, and others waited for that */
        group_commit->owed = 0;
    }
    if (leader == NULL || group_commit->eager_rounds > 0) {
        ring_served(group_commit, 1);
        group_commit->owed = 0;
        if (group_commit->eager_rounds > 0) group_commit->eager_rounds--;
    } else if (group_commit->owed == 0) {
        ring_served(group_commit, 0);
    }
}

/* ---- leading and waiting ---- */

/* 0, or -1 with the error of `lead`. No interrupt comes between the flag and the call, or the call and the flag. */
static int lead(struct group_commit *group_commit, PyObject *call) {
    group_commit->is_led = 1;
    if (group_commit->owed > 0) {
        group_commit->owed--;
        ring_served(group_commit, 0);
    }
    group_commit->rings_before = group_commit->rings;
    const struct waiter *waiter = group_commit->first;
    while (waiter != NULL && !is_served(group_commit, waiter->goal)) waiter = waiter->next;
    group_commit->was_line_served = waiter != NULL;
    PyObject *done = PyObject_CallFunctionObjArgs(call, NULL);
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    hand_on(group_commit);
    PyErr_Restore(type, value, trace);
    group_commit->was_line_served = 0;
    if (done == NULL) return -1;
    Py_DECREF(done);
    return 0;
}

/*
 * Waits to be rung, `left_us` at most. 1: it is to lead now; 0: it is to look again; -1: an error that a signal raised.
 * What handles a signal may wait here, too: so nobody counts on this thread meanwhile.
 */
static int sleep_until_rung(struct group_commit *group_commit, int64_t goal, uint64_t arrival, int64_t left_us) {
    struct waiter *waiter = enter(group_commit, goal, arrival);
    if (waiter == NULL) return -1;
    struct waiter *next = NULL;
    if (group_commit->owed > 0) {
        group_commit->owed--;
        next = next_served(group_commit);
    }
    /* Whom this thread rings finds the GIL free. */
    PyThreadState *const thread = PyEval_SaveThread();
    if (next != NULL) PyThread_release_lock(next->bell);
    const PyLockStatus status = PyThread_acquire_lock_timed(waiter->bell, left_us, 1);
    PyEval_RestoreThread(thread);
    int is_notified = 1, is_signalled = 0;
    if (status != PY_LOCK_ACQUIRED) {
        if (waiter->is_listed) {
            leave(group_commit, waiter);
            is_notified = 0;
            is_signalled = PyErr_CheckSignals() < 0;
        } else {
            PyThread_acquire_lock(waiter->bell, WAIT_LOCK); /* who has taken it out of the line rings it now */
        }
    }
    const int is_to_lead = is_notified && waiter->is_heir;
    waiter->next = group_commit->idle;
    group_commit->idle = waiter;
    if (is_notified && !is_to_lead) group_commit->owed++;
    return is_signalled ? -1 : is_to_lead;
}

/* 1: synced, or has led if it was to do no more; 0: it took too long; -1: an error. */
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
        int64_t left_us = LOOK_EVERY_US;
        if (deadline_us >= 0) {
            const int64_t until_us = deadline_us - now_us();
            if (until_us <= 0) return 0;
            if (until_us < left_us) left_us = until_us;
        }
        leads = sleep_until_rung(group_commit, goal, arrival, left_us);
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
        PyThread_release_lock(waiter->bell);
        PyThread_free_lock(waiter->bell);
        PyMem_Free(waiter);
    }
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

/* -1 with an error; else 0, and when it ends by the monotonic clock: -1 never does. */
static int to_deadline_us(PyObject *timeout_s, int64_t *deadline_us) {
    *deadline_us = -1;
    if (timeout_s == Py_None) return 0;
    double seconds = PyFloat_AsDouble(timeout_s);
    if (seconds == -1.0 && PyErr_Occurred()) return -1;
    if (!(seconds > 0)) seconds = 0; /* also what is no number */
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
     "wait_for(goal, lead, timeout_s, /)\n--\n\nWhether `synced_to` has come to the goal, by this lead() or another's."},
    {"run_exclusive", (PyCFunction)py_run_exclusive, METH_O,
     "run_exclusive(call, /)\n--\n\nCall it while nobody leads."},
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
    {Py_tp_doc, "Who syncs and who waits for it; pure/group_commit.py does the same in Python."},
    {0, NULL},
};

static PyType_Spec group_commit_spec = {
    .name = "flightlog.store.native._kernel.GroupCommit",
    .basicsize = sizeof(struct group_commit),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = group_commit_slots,
};

int add_group_commit_type(PyObject *module) { return add_type(module, &group_commit_spec, NULL); }
