/* Populates, releases and syncs pages of a mapping without the GIL. The first two work in pieces, because each call
 * blocks other changes of the process's mappings. */
#include "module.h"

#if defined(__linux__)
#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif

enum { PIECE_SIZE = 1 << 20 };

static int advise(uint8_t *at, size_t size, int advice) {
    while (size > 0) {
        const size_t piece = size < PIECE_SIZE ? size : PIECE_SIZE;
        if (madvise(at, piece, advice) == 0) {
            at += piece;
            size -= piece;
        } else if (errno != EINTR && errno != EAGAIN) {
            return 0;
        }
    }
    return 1;
}

/* On Linux, an fdatasync of only these bytes of the file. Other systems do not wait for the disk's cache. */
static int sync_to_disk(uint8_t *at, size_t size, int flags) {
    int result;
    do result = msync(at, size, flags);
    while (result != 0 && errno == EINTR);
    return result == 0 ? 1 : -1;
}

static uintptr_t page_size(void) { return (uintptr_t)sysconf(_SC_PAGESIZE); }
#else
#define MADV_POPULATE_WRITE 0
#define MADV_DONTNEED 0
#define MS_SYNC 0

static int advise(uint8_t *at, size_t size, int advice) { return (void)at, (void)size, (void)advice, 0; }

static int sync_to_disk(uint8_t *at, size_t size, int flags) { return advise(at, size, flags); }

static uintptr_t page_size(void) { return 4096; }
#endif

/* `work` returns whether it could; -1 for an error, which is in errno. */
static PyObject *work_on_pages(const char *function, PyObject *const *args, Py_ssize_t count,
                               int (*work)(uint8_t *at, size_t size, int how), int how) {
    enum { BUFFER, POSITION, SIZE, ARGUMENTS };
    int64_t position, size;
    if (check_count(function, count, ARGUMENTS) < 0 || to_int64(args[POSITION], "position", &position) < 0 ||
        to_int64(args[SIZE], "size", &size) < 0) {
        return NULL;
    }
    struct input input;
    if (to_writable(args[BUFFER], "buffer", &input) < 0) return NULL;
    PyObject *result = NULL;
    uint8_t *const buffer = input.view.buf;
    if (position < 0 || size <= 0 || (uint64_t)position > input.bytes.size ||
        (uint64_t)size > input.bytes.size - (uint64_t)position) {
        PyErr_Format(PyExc_ValueError, "%lld bytes at position %lld are none of a buffer of %zu bytes",
                     (long long)size, (long long)position, input.bytes.size);
    } else if (((uintptr_t)buffer + (uintptr_t)position) % page_size() != 0) {
        PyErr_Format(PyExc_ValueError, "no page begins at position %lld", (long long)position);
    } else {
        PyThreadState *const thread = let_others_run();
        const int is_done = work(buffer + position, (size_t)size, how);
        PyEval_RestoreThread(thread); /* keeps errno */
        result = is_done < 0 ? PyErr_SetFromErrno(PyExc_OSError) : PyBool_FromLong(is_done);
    }
    release(&input, 1);
    return result;
}

PyObject *py_populate(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count) {
    return work_on_pages("populate", args, count, advise, MADV_POPULATE_WRITE);
}

PyObject *py_release_pages(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count) {
    return work_on_pages("release_pages", args, count, advise, MADV_DONTNEED);
}

PyObject *py_sync_pages(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count) {
    return work_on_pages("sync_pages", args, count, sync_to_disk, MS_SYNC);
}
