/* The notifications of an engine, which the library gives as JSON. */
#include "native.h"

static PyObject *utf8(PyObject *entry, const char *field) {
  PyObject *key = PyUnicode_FromString(field), *text = key ? PyObject_GetItem(entry, key) : NULL;
  PyObject *bytes = text ? PyUnicode_AsUTF8String(text) : NULL;
  Py_XDECREF(key);
  Py_XDECREF(text);
  return bytes;
}

/* [{"name", "msg"}] as [(name, msg)]; takes parsed. */
static PyObject *pairs(PyObject *parsed) {
  PyObject *items = parsed ? PySequence_Tuple(parsed) : NULL;
  Py_XDECREF(parsed);
  if (!items) return NULL;
  Py_ssize_t n = PyTuple_Size(items);
  PyObject *list = PyList_New(n);
  for (Py_ssize_t i = 0; list && i < n; i++) {
    PyObject *entry = PyTuple_GetItem(items, i), *name = utf8(entry, "name"), *msg = name ? utf8(entry, "msg") : NULL;
    if (!list_set(list, (size_t)i, msg ? PyTuple_Pack(2, name, msg) : NULL)) Py_CLEAR(list);
    Py_XDECREF(name);
    Py_XDECREF(msg);
  }
  Py_DECREF(items);
  return list;
}

METHOD(engine_notifies, 1) {
  mck_handle e;
  const library *lib;
  mck_blob b;
  if (!to_handle(a[0], &e) || !(lib = library_need())) return NULL;
  UNLOCKED(b = lib->engine_notifies(e));
  if (!b.data) return PyList_New(0);
  PyObject *text = str_of(lib, b), *json = text ? PyImport_ImportModule("json") : NULL;
  PyObject *list = json ? pairs(PyObject_CallMethod(json, "loads", "O", text)) : NULL;
  Py_XDECREF(text);
  Py_XDECREF(json);
  return list;
}

PyMethodDef notify_methods[] = {
    METHOD_ENTRY(engine_notifies, "engine_notifies(handle) -> list[tuple[bytes, bytes]]"),
    {NULL, NULL, 0, NULL},
};
