/* Where objects lie. Replica holds the numbers of one; Python derives a class with names from it. */
#include "native.h"

#include <stddef.h>
#include <structmember.h>

typedef struct replica {
  PyObject_HEAD
  int status;
  unsigned long long size, address;
  PyObject *endpoint; /* NULL in one that Python made */
  char tier;
} replica;

static PyTypeObject *replica_type; /* made once, lives as long as the process */

static void replica_dealloc(PyObject *self) {
  PyTypeObject *type = Py_TYPE(self);
  freefunc release = *(freefunc *)&(void *){PyType_GetSlot(type, Py_tp_free)};
  Py_XDECREF(((replica *)self)->endpoint);
  release(self);
  Py_DECREF(type);
}

bool replica_add_type(PyObject *module) {
  static PyMemberDef members[] = {
      {"_status", T_INT, offsetof(replica, status), 0, "the number of a ReplicaStatus"},
      {"_size", T_ULONGLONG, offsetof(replica, size), 0, "bytes"},
      {"_address", T_ULONGLONG, offsetof(replica, address), 0, "in the node that has it"},
      {"_endpoint", T_OBJECT_EX, offsetof(replica, endpoint), 0, "by which the node is reached"},
      {"_tier", T_BOOL, offsetof(replica, tier), 0, "whether it lies on a storage tier"},
      {NULL, 0, 0, 0, NULL},
  };
  static PyType_Slot slots[] = {
      {Py_tp_doc, (char *)"The numbers of one replica; store_replicas makes them."},
      {Py_tp_dealloc, (void *)(uintptr_t)replica_dealloc},
      {Py_tp_members, members},
      {0, NULL},
  };
  static PyType_Spec spec = {
      .name = "mooncake._native.Replica",
      .basicsize = sizeof(replica),
      .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
      .slots = slots,
  };
  if (!replica_type && !(replica_type = (PyTypeObject *)PyType_FromSpec(&spec))) return false;
  return PyModule_AddObjectRef(module, "Replica", (PyObject *)replica_type) == 0;
}

/* The keys as a tuple in which bytes have become str: the keys of the answer. Other objects stay. */
static PyObject *to_names(PyObject *o) {
  PyObject *items = to_items(o, NAMED("keys"));
  Py_ssize_t n = items ? PyTuple_Size(items) : 0;
  for (Py_ssize_t i = 0; i < n; i++) {
    if (!PyBytes_Check(PyTuple_GetItem(items, i))) continue;
    PyObject *list = PySequence_List(items);
    Py_DECREF(items);
    for (; list && i < n; i++) {
      char *bytes;
      Py_ssize_t size;
      PyObject *item = PyList_GetItem(list, i);
      if (!PyBytes_Check(item)) continue;
      if (PyBytes_AsStringAndSize(item, &bytes, &size) < 0 || !list_set(list, (size_t)i, PyUnicode_DecodeUTF8(bytes, size, NULL))) {
        if (PyErr_ExceptionMatches(PyExc_UnicodeError)) wrong_value(&(place){.name = "keys", .depth = 1, .at = {i}}, "expected text that has a UTF-8 form");
        Py_CLEAR(list);
      }
    }
    items = list ? PyList_AsTuple(list) : NULL;
    Py_XDECREF(list);
    return items;
  }
  return items;
}

/* What mck_store_replicas answers, as it lies in its blob. */
typedef struct columns {
  const uint64_t *rows; /* of the next key */
  PyObject **endpoints;
  uint64_t n_endpoints;
} columns;

/* The endpoints as str in s, which owns none of the references; those made so far are counted. */
static bool to_endpoints(scratch *s, const uint64_t *numbers, const char *text, columns *out) {
  uint64_t n = *numbers++;
  if (!(out->endpoints = scratch_take(s, n, sizeof *out->endpoints))) return false;
  for (uint64_t begin = 0; out->n_endpoints < n; begin = *numbers++) {
    PyObject *endpoint = PyUnicode_DecodeUTF8(text + begin, (Py_ssize_t)(*numbers - begin), "replace");
    if (!endpoint) return false;
    out->endpoints[out->n_endpoints++] = endpoint;
  }
  return true;
}

/* The list of the next n replicas. */
static PyObject *next_replicas(PyTypeObject *kind, columns *c, uint64_t n) {
  PyObject *list = PyList_New((Py_ssize_t)n);
  for (uint64_t i = 0; list && i < n; i++, c->rows += MCK_REPLICA_NUMBERS) {
    PyObject *o = PyType_GenericAlloc(kind, 0);
    if (!list_set(list, i, o)) {
      Py_CLEAR(list);
      break;
    }
    replica *r = (replica *)o;
    r->status = (int)c->rows[0];
    r->size = c->rows[1];
    r->address = c->rows[2];
    r->endpoint = c->endpoints[c->rows[3]];
    Py_INCREF(r->endpoint);
    r->tier = c->rows[4] != 0;
  }
  return list;
}

/* names to lists of replicas, without those that have none. */
static PyObject *found(scratch *s, PyTypeObject *kind, PyObject *names, const uint64_t *counts, mck_blob b) {
  PyObject *answer = PyDict_New();
  Py_ssize_t n = PyTuple_Size(names);
  uint64_t all = 0;
  for (Py_ssize_t i = 0; i < n; i++) all += counts[i];
  if (!answer || !all) return answer;
  if (!b.data) {
    Py_DECREF(answer);
    return PyErr_NoMemory();
  }
  const uint64_t *numbers = (const uint64_t *)(const void *)b.data;
  columns c = {.rows = numbers + 1 + numbers[0]};
  bool ok = to_endpoints(s, numbers, (const char *)(c.rows + MCK_REPLICA_NUMBERS * all), &c);
  for (Py_ssize_t i = 0; ok && i < n; i++) {
    if (!counts[i]) continue;
    PyObject *list = next_replicas(kind, &c, counts[i]);
    ok = list && PyDict_SetItem(answer, PyTuple_GetItem(names, i), list) == 0;
    Py_XDECREF(list);
  }
  while (c.n_endpoints) Py_DECREF(c.endpoints[--c.n_endpoints]);
  if (!ok) Py_CLEAR(answer);
  return answer;
}

METHOD(store_replicas, 3) {
  scratch s;
  scratch_init(&s);
  PyObject *answer = NULL, *names = NULL;
  mck_handle h;
  texts keys;
  uint64_t *counts;
  const library *lib;
  if (!PyType_Check(a[2]) || !PyType_IsSubtype((PyTypeObject *)a[2], replica_type)) {
    wrong_type(NAMED("kind"), "a class derived from Replica", a[2]);
  } else if (to_handle(a[0], &h) && (names = to_names(a[1])) && to_texts(&s, names, "keys", 1, &keys) &&
             (counts = scratch_take(&s, keys.c.n, sizeof *counts)) && (lib = library_need())) {
    mck_blob b;
    UNLOCKED(b = lib->store_replicas(h, keys.c, counts));
    answer = found(&s, (PyTypeObject *)a[2], names, counts, b);
    if (b.data) lib->blob_free(b);
  }
  Py_XDECREF(names);
  scratch_free(&s);
  return answer;
}

/* The names whose results are 1. */
static PyObject *done(PyObject *names, const int64_t *results) {
  PyObject *answer = PyList_New(0);
  Py_ssize_t n = PyTuple_Size(names);
  for (Py_ssize_t i = 0; answer && i < n; i++)
    if (results[i] == 1 && PyList_Append(answer, PyTuple_GetItem(names, i)) < 0) Py_CLEAR(answer);
  return answer;
}

METHOD(store_clear_replicas, 3) {
  scratch s;
  scratch_init(&s);
  PyObject *answer = NULL, *names = NULL;
  mck_handle h;
  texts keys;
  const char *segment;
  uint64_t size;
  int64_t *results;
  const library *lib;
  if (to_handle(a[0], &h) && (names = to_names(a[1])) && to_texts(&s, names, "keys", 1, &keys) && to_text(a[2], NAMED("segment_name"), &segment, &size) &&
      (results = scratch_take(&s, keys.c.n, sizeof *results)) && (lib = library_need())) {
    UNLOCKED(lib->store_clear_replicas(h, keys.c, segment, size, results));
    answer = done(names, results);
  }
  Py_XDECREF(names);
  scratch_free(&s);
  return answer;
}

PyMethodDef replica_methods[] = {
    METHOD_ENTRY(store_replicas, "store_replicas(handle, keys, kind) -> dict[str, list]"),
    METHOD_ENTRY(store_clear_replicas, "store_clear_replicas(handle, keys, segment_name) -> list[str]"),
    {NULL, NULL, 0, NULL},
};
