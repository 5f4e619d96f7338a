/* The functions and types of the files `module_*.c`, for module.c. Adding a type returns -1 with an error. */
#ifndef FLIGHTLOG_MODULE_H
#define FLIGHTLOG_MODULE_H

#include "arguments.h"

/* module_columns.c */
PyObject *py_walk_places(PyObject *module, PyObject *const *args, Py_ssize_t count);
PyObject *py_gather(PyObject *module, PyObject *const *args, Py_ssize_t count);
PyObject *py_number_rows(PyObject *module, PyObject *const *args, Py_ssize_t count);
PyObject *py_encode_columns(PyObject *module, PyObject *const *args, Py_ssize_t count);

/* module_fast_path.c */
int add_fast_path_type(PyObject *module);

/* module_group_commit.c */
int add_group_commit_type(PyObject *module);

/* module_listing.c: entries of queues and of the key index */
PyObject *py_list_rows(PyObject *module, PyObject *const *args, Py_ssize_t count);
PyObject *py_link_keys(PyObject *module, PyObject *const *args, Py_ssize_t count);
PyObject *py_set_heads(PyObject *module, PyObject *const *args, Py_ssize_t count);

/* module_messages.c */
PyObject *py_messages(PyObject *module, PyObject *const *args, Py_ssize_t count);
PyObject *py_entry_rows(PyObject *module, PyObject *const *args, Py_ssize_t count);
PyObject *py_decode_properties(PyObject *module, PyObject *raw);

/* module_pages.c: populates, releases and syncs pages of a mapping */
PyObject *py_populate(PyObject *module, PyObject *const *args, Py_ssize_t count);
PyObject *py_release_pages(PyObject *module, PyObject *const *args, Py_ssize_t count);
PyObject *py_sync_pages(PyObject *module, PyObject *const *args, Py_ssize_t count);

/* module_put.c */
int add_put_type(PyObject *module);

/* module_texts.c */
PyObject *py_property_texts(PyObject *module, PyObject *const *args, Py_ssize_t count);

#endif
