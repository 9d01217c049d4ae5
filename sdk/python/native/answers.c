#include "native.h"

bool list_set(PyObject *list, size_t i, PyObject *item) { return item && PyList_SetItem(list, (Py_ssize_t)i, item) == 0; }

PyObject *list_of(const int64_t *values, size_t n) {
  PyObject *list = PyList_New((Py_ssize_t)n);
  for (size_t i = 0; list && i < n; i++)
    if (!list_set(list, i, PyLong_FromLongLong(values[i]))) Py_CLEAR(list);
  return list;
}

PyObject *list_filled(size_t n, int64_t value) {
  PyObject *list = PyList_New((Py_ssize_t)n);
  for (size_t i = 0; list && i < n; i++)
    if (!list_set(list, i, PyLong_FromLongLong(value))) Py_CLEAR(list);
  return list;
}

PyObject *list_items(PyObject **items, size_t n) {
  PyObject *list = PyList_New((Py_ssize_t)n);
  for (size_t i = 0; i < n; i++) {
    if (!list) Py_DECREF(items[i]);
    else if (!list_set(list, i, items[i])) Py_CLEAR(list);
  }
  return list;
}

PyObject *str_of(const library *lib, mck_blob b) {
  PyObject *text = PyUnicode_DecodeUTF8(b.data ? b.data : "", (Py_ssize_t)(b.data ? b.size : 0), "replace");
  if (b.data) lib->blob_free(b);
  return text;
}

PyObject *wrong_count(const char *function, int want, Py_ssize_t got) {
  return PyErr_Format(PyExc_TypeError, "%s() takes %d positional arguments, got %zd", function, want, got);
}
