/*
 * A type whose objects hold the bytes of a record, and its numbers as C numbers: creating one takes a few stores, and
 * the other fields are decoded when they are read.
 */
#include "record_fields.h"

#include <stddef.h>
#include <structmember.h>

#include "arguments.h"
#include "heap_type.h"
#include "property_text.h"
#include "record.h"

/* The list that messages share: the two hosts, then name and value of each property that was read. */
enum { BORN, STORE, SHARED_TEXTS, SHARED_MOST = SHARED_TEXTS + 2 * 16 };

static int is_same(struct bytes bytes, const uint8_t *data, size_t size) {
    return bytes.size == size && memcmp(bytes.data, data, size) == 0;
}

/* ---- property texts ---- */

static PyObject *text_of(struct bytes raw) {
    return PyUnicode_DecodeUTF8((const char *)raw.data, (Py_ssize_t)raw.size, "replace");
}

/*
 * The shared text at this place, if it is equal: names of properties usually are, and many values. Otherwise a new
 * text, which replaces it.
 */
static PyObject *shared_text(PyObject *shared, Py_ssize_t place, struct bytes raw) {
    if (shared == NULL || place >= SHARED_MOST) return text_of(raw);
    PyObject *known = place < PyList_Size(shared) ? PyList_GetItem(shared, place) : NULL;
    if (known != NULL) {
        Py_ssize_t size;
        const char *const text = PyUnicode_AsUTF8AndSize(known, &size);
        if (text == NULL) return NULL;
        if (is_same(raw, (const uint8_t *)text, (size_t)size)) return Py_NewRef(known);
    }
    PyObject *made = text_of(raw);
    if (made == NULL) return NULL;
    const int result = known != NULL ? PyList_SetItem(shared, place, Py_NewRef(made)) : PyList_Append(shared, made);
    if (result < 0) Py_CLEAR(made);
    return made;
}

PyObject *pairs_of(struct bytes raw, PyObject *shared) {
    PyObject *found = PyDict_New();
    struct bytes name, value;
    for (Py_ssize_t place = SHARED_TEXTS; found != NULL && next_pair(&raw, &name, &value); place += 2) {
        PyObject *key = shared_text(shared, place, name);
        PyObject *text = key != NULL ? shared_text(shared, place + 1, value) : NULL;
        if (text == NULL || PyDict_SetItem(found, key, text) < 0) Py_CLEAR(found);
        Py_XDECREF(key);
        Py_XDECREF(text);
    }
    return found;
}

static PyObject *tokens_of(struct bytes text) {
    PyObject *list = PyList_New(0);
    while (list != NULL && text.size > 0) {
        const uint8_t *const stop = memchr(text.data, ' ', text.size);
        const size_t size = stop != NULL ? (size_t)(stop - text.data) : text.size;
        if (size > 0) {
            PyObject *token = text_of((struct bytes){text.data, size});
            if (token == NULL || PyList_Append(list, token) < 0) Py_CLEAR(list);
            Py_XDECREF(token);
        }
        text.data += stop != NULL ? size + 1 : size;
        text.size -= stop != NULL ? size + 1 : size;
    }
    return list;
}

/* ---- fields that are decoded on first use ---- */

static PyObject *no_field(const char *name) {
    PyErr_SetString(PyExc_AttributeError, name);
    return NULL;
}

/*
 * Stores a decoded field, unless code that ran meanwhile has stored one. Steals the reference, and returns a new one.
 */
static PyObject *keep(PyObject **field, PyObject *made) {
    if (made == NULL) return NULL;
    if (*field == NULL) *field = made;
    else Py_DECREF(made);
    return Py_NewRef(*field);
}

static PyObject *bytes_object(struct bytes bytes) {
    return PyBytes_FromStringAndSize((const char *)bytes.data, (Py_ssize_t)bytes.size);
}

static PyObject *get_properties_raw(struct record_fields *self, void *Py_UNUSED(closure)) {
    if (self->properties_raw != NULL) return Py_NewRef(self->properties_raw);
    if (self->rest == NULL) return no_field("properties_raw");
    return keep(&self->properties_raw, bytes_object(self->properties_there));
}

static PyObject *get_store_host_raw(struct record_fields *self, void *Py_UNUSED(closure)) {
    if (self->store_host_raw != NULL) return Py_NewRef(self->store_host_raw);
    if (self->rest == NULL) return no_field("store_host_raw");
    return keep(&self->store_host_raw, bytes_object(self->store_host_there));
}

static struct bytes born_host_there(const struct record_fields *self) {
    const uint8_t *const head = (const uint8_t *)PyBytes_AsString(self->rest);
    return (struct bytes){head + BORN_HOST_AT, (size_t)(self->store_host_there.data - head) - STORE_HOST_AT};
}

/* Decodes a host with the `_decode_host` of the class. Steals the reference to the bytes. */
static PyObject *host_of(struct record_fields *self, int which, PyObject *raw) {
    if (raw == NULL) return NULL;
    PyObject *decode = PyObject_GetAttrString((PyObject *)self, "_decode_host");
    PyObject *host = decode != NULL ? PyObject_CallFunctionObjArgs(decode, raw, NULL) : NULL;
    Py_XDECREF(decode);
    Py_DECREF(raw);
    if (host != NULL && self->shared != NULL && PyList_SetItem(self->shared, which, Py_NewRef(host)) < 0) {
        Py_CLEAR(host);
    }
    return host;
}

static PyObject *shared_host(const struct record_fields *self, int which) {
    PyObject *host = self->shared != NULL ? PyList_GetItem(self->shared, which) : NULL;
    return host != NULL && host != Py_None ? Py_NewRef(host) : NULL;
}

static PyObject *get_born_host(struct record_fields *self, void *Py_UNUSED(closure)) {
    if (self->born_host != NULL) return Py_NewRef(self->born_host);
    if (self->rest == NULL) return no_field("born_host");
    PyObject *host = shared_host(self, BORN);
    if (host == NULL) host = host_of(self, BORN, bytes_object(born_host_there(self)));
    return keep(&self->born_host, host);
}

static PyObject *get_store_host(struct record_fields *self, void *closure) {
    if (self->store_host != NULL) return Py_NewRef(self->store_host);
    PyObject *host = shared_host(self, STORE);
    if (host == NULL) host = host_of(self, STORE, get_store_host_raw(self, closure));
    return keep(&self->store_host, host);
}

/* ---- properties, and fields that are properties ---- */

/* The property text. The owner, a new reference, keeps it alive. */
static int hold_properties(struct record_fields *self, struct input *input, PyObject **owner) {
    *owner = self->properties_raw != NULL ? self->properties_raw : self->rest;
    if (*owner == NULL) {
        no_field("properties_raw");
        return -1;
    }
    Py_INCREF(*owner);
    input->held = 0;
    if (*owner == self->rest) input->bytes = self->properties_there;
    else if (to_bytes(*owner, input) < 0) {
        Py_DECREF(*owner);
        return -1;
    }
    return 0;
}

static PyObject *get_properties(struct record_fields *self, void *Py_UNUSED(closure)) {
    if (self->properties != NULL) return Py_NewRef(self->properties);
    struct input raw;
    PyObject *owner;
    if (hold_properties(self, &raw, &owner) < 0) return NULL;
    PyObject *found = pairs_of(raw.bytes, self->shared);
    release(&raw, 1);
    Py_DECREF(owner);
    return keep(&self->properties, found);
}

/* The text of a property, or its tokens; None or no tokens if it is missing. */
static PyObject *get_property(struct record_fields *self, const char *name, int is_split) {
    struct input raw;
    PyObject *owner;
    if (hold_properties(self, &raw, &owner) < 0) return NULL;
    const struct bytes value = value_of(raw.bytes, name);
    PyObject *found = is_split ? tokens_of(value) : value.data != NULL ? text_of(value) : Py_NewRef(Py_None);
    release(&raw, 1);
    Py_DECREF(owner);
    return found;
}

/* The same from the dict, which the application may have changed. */
static PyObject *get_known_property(PyObject *properties, const char *name, int is_split) {
    PyObject *key = PyUnicode_FromString(name);
    PyObject *value = key != NULL ? PyDict_GetItemWithError(properties, key) : NULL;
    Py_XINCREF(value);
    Py_XDECREF(key);
    if (PyErr_Occurred()) return NULL;
    if (!is_split) return value != NULL ? value : Py_NewRef(Py_None);
    struct bytes text = {NULL, 0};
    if (value != NULL) {
        Py_ssize_t size;
        text.data = (const uint8_t *)PyUnicode_AsUTF8AndSize(value, &size);
        text.size = text.data != NULL ? (size_t)size : 0;
    }
    PyObject *found = value != NULL && text.data == NULL ? NULL : tokens_of(text);
    Py_XDECREF(value);
    return found;
}

static PyObject *get_text(struct record_fields *self, void *name) {
    return self->properties != NULL ? get_known_property(self->properties, name, 0) : get_property(self, name, 0);
}

static PyObject *get_tokens(struct record_fields *self, void *name) {
    return self->properties != NULL ? get_known_property(self->properties, name, 1) : get_property(self, name, 1);
}

/* ---- setting ---- */

static PyObject *get_rest(struct record_fields *self, void *Py_UNUSED(closure)) {
    return self->rest != NULL ? Py_NewRef(self->rest) : no_field("_rest");
}

static void forget(struct record_fields *self) {
    PyObject **const objects[] = {&self->rest, &self->body, &self->topic, &self->batch_index, &self->properties_raw,
                                  &self->properties, &self->store_host_raw, &self->born_host, &self->store_host,
                                  &self->shared};
    for (size_t i = 0; i < sizeof objects / sizeof objects[0]; i++) Py_CLEAR(*objects[i]);
}

/* The shared list for messages with these hosts: that of the previous message, or a new one, which is remembered. */
static int share_hosts(struct record_fields *self, struct known_hosts *known) {
    const struct bytes born = born_host_there(self), store = self->store_host_there;
    if (known->list == NULL || !is_same(born, known->born, known->born_size) ||
        !is_same(store, known->store, known->store_size)) {
        PyObject *list = PyList_New(0);
        if (list == NULL || PyList_Append(list, Py_None) < 0 || PyList_Append(list, Py_None) < 0) {
            Py_XDECREF(list);
            return -1;
        }
        Py_XDECREF(known->list);
        known->list = list;
        memcpy(known->born, born.data, known->born_size = born.size);
        memcpy(known->store, store.data, known->store_size = store.size);
    }
    self->shared = Py_NewRef(known->list);
    return 0;
}

int fill_record_fields(struct record_fields *self, PyObject *rest, const struct fields *fields, PyObject *topic,
                       struct known_hosts *known) {
    self->rest = rest;
    self->topic = Py_NewRef(topic);
    self->batch_index = Py_NewRef(Py_None);
    self->properties_there = fields->properties;
    self->store_host_there = fields->store_host;
    self->size = fields->size;
    self->magic = fields->magic;
    self->body_crc = fields->body_crc;
    self->queue_id = fields->queue_id;
    self->flag = fields->flag;
    self->queue_offset = fields->queue_offset;
    self->physical_offset = fields->physical_offset;
    self->sys_flag = fields->sys_flag;
    self->born_timestamp_ms = fields->born_timestamp_ms;
    self->store_timestamp_ms = fields->store_timestamp_ms;
    self->reconsume_times = fields->reconsume_times;
    self->prepared_transaction_offset = fields->prepared_transaction_offset;
    return known != NULL ? share_hosts(self, known) : 0;
}

/* Sets all fields from a record, except the body. */
static int set_rest(struct record_fields *self, PyObject *rest, void *Py_UNUSED(closure)) {
    if (rest == NULL || !PyBytes_Check(rest)) {
        PyErr_SetString(PyExc_TypeError, "_rest: expected bytes");
        return -1;
    }
    struct fields fields;
    if (!fields_of((struct bytes){(const uint8_t *)PyBytes_AsString(rest), (size_t)PyBytes_Size(rest)}, &fields)) {
        PyErr_SetString(PyExc_ValueError, "no record without its body");
        return -1;
    }
    PyObject *topic = text_of(fields.topic);
    if (topic == NULL) return -1;
    forget(self);
    const int result = fill_record_fields(self, Py_NewRef(rest), &fields, topic, NULL);
    Py_DECREF(topic);
    return result;
}

static int set_object(struct record_fields *self, PyObject *value, void *closure) {
    PyObject **const field = (PyObject **)((char *)self + (size_t)(uintptr_t)closure);
    PyObject *before = *field;
    *field = Py_XNewRef(value);
    Py_XDECREF(before);
    return 0;
}

/* ---- the type ---- */

static void dealloc(struct record_fields *self) {
    PyTypeObject *type = Py_TYPE((PyObject *)self);
    if (self->weak_references != NULL) PyObject_ClearWeakRefs((PyObject *)self);
    forget(self);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

#define PLACE(field) offsetof(struct record_fields, field)
#define NUMBER(field) {#field, T_LONGLONG, PLACE(field), 0, NULL}
#define OBJECT(field) {#field, T_OBJECT_EX, PLACE(field), 0, NULL}
#define MADE(field) {#field, (getter)get_##field, (setter)set_object, NULL, (void *)PLACE(field)}
#define ASKED(name, get, property) {name, (getter)get, NULL, NULL, (void *)(uintptr_t)property}

static PyMemberDef members[] = {
    NUMBER(size), NUMBER(magic), NUMBER(body_crc), NUMBER(queue_id), NUMBER(flag), NUMBER(queue_offset),
    NUMBER(physical_offset), NUMBER(sys_flag), NUMBER(born_timestamp_ms), NUMBER(store_timestamp_ms),
    NUMBER(reconsume_times), NUMBER(prepared_transaction_offset),
    OBJECT(body), OBJECT(topic), OBJECT(batch_index),
    {"__weaklistoffset__", T_PYSSIZET, PLACE(weak_references), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyGetSetDef computed[] = {
    MADE(properties_raw), MADE(store_host_raw), MADE(born_host), MADE(store_host),
    {"_rest", (getter)get_rest, (setter)set_rest, NULL, NULL},
    {"properties", (getter)get_properties, NULL, NULL, NULL},
    ASKED("tags", get_text, "TAGS"),
    ASKED("keys", get_tokens, "KEYS"),
    ASKED("uniq_key", get_text, "UNIQ_KEY"),
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_dealloc, dealloc},
    {Py_tp_members, members},
    {Py_tp_getset, computed},
    {Py_tp_doc, "The fields of a record; pure/fields.py does the same in Python."},
    {0, NULL},
};

static PyType_Spec spec = {
    .name = "flightlog.store.native._kernel.RecordFields",
    .basicsize = sizeof(struct record_fields),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .slots = slots,
};

/* As the `__slots__` of the reference's class. */
static const char *const slot_names[] = {
    "size", "magic", "body_crc", "queue_id", "flag", "queue_offset", "physical_offset", "sys_flag", "born_timestamp_ms",
    "store_timestamp_ms", "reconsume_times", "prepared_transaction_offset", "body", "topic", "batch_index",
    "properties_raw", "store_host_raw", "born_host", "store_host", "__weakref__", NULL,
};

int add_record_fields_type(PyObject *module) { return add_type(module, &spec, slot_names); }
