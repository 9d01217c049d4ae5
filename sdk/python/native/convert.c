#include "native.h"

#include <stdio.h>
#include <string.h>

static void describe(const place *p, char *text, size_t space) {
  int used = snprintf(text, space, "%s", p->name);
  for (int i = 0; i < p->depth && used > 0 && (size_t)used < space; i++)
    used += snprintf(text + used, space - (size_t)used, "[%zd]", p->at[i]);
}

void wrong_value(const place *p, const char *reason) {
  char where[160];
  describe(p, where, sizeof where);
  PyErr_Format(PyExc_TypeError, "%s: %s", where, reason);
}

void wrong_type(const place *p, const char *what, PyObject *o) {
  char where[160];
  describe(p, where, sizeof where);
  PyObject *type = PyObject_GetAttrString((PyObject *)Py_TYPE(o), "__name__");
  if (!type) return;
  PyErr_Format(PyExc_TypeError, "%s: expected %s, got %U", where, what, type);
  Py_DECREF(type);
}

/* The int of an object with __index__, as a new reference. */
static PyObject *to_int(PyObject *o, const place *p) {
  if (PyLong_Check(o)) {
    Py_INCREF(o);
    return o;
  }
  PyObject *number = PyIndex_Check(o) ? PyNumber_Index(o) : NULL;
  if (number) return number;
  /* Arrays have __index__ and refuse when they are not of one whole number. */
  if (!PyErr_Occurred() || PyErr_ExceptionMatches(PyExc_TypeError)) wrong_type(p, "an int", o);
  return NULL;
}

bool to_u64(PyObject *o, const place *p, uint64_t *out) {
  PyObject *number = to_int(o, p);
  if (!number) return false;
  unsigned long long value = PyLong_AsUnsignedLongLong(number);
  Py_DECREF(number);
  *out = value;
  if (value != (unsigned long long)-1 || !PyErr_Occurred()) return true;
  if (PyErr_ExceptionMatches(PyExc_OverflowError)) wrong_value(p, "expected an int from 0 to 2**64-1");
  return false;
}

bool to_i32(PyObject *o, const place *p, int32_t *out) {
  PyObject *number = to_int(o, p);
  if (!number) return false;
  int overflow;
  long long value = PyLong_AsLongLongAndOverflow(number, &overflow);
  Py_DECREF(number);
  if (value == -1 && PyErr_Occurred()) return false;
  if (overflow || value < INT32_MIN || value > INT32_MAX) {
    wrong_value(p, "expected an int of 32 bits");
    return false;
  }
  *out = (int32_t)value;
  return true;
}

bool to_handle(PyObject *o, mck_handle *out) {
  PyObject *number = to_int(o, NAMED("handle"));
  if (!number) return false;
  int overflow;
  long long value = PyLong_AsLongLongAndOverflow(number, &overflow);
  Py_DECREF(number);
  if (value == -1 && PyErr_Occurred()) return false;
  *out = overflow ? 0 : value; /* 0 is the handle of nothing */
  return true;
}

/* True for numpy.bool_, which numpy 2 calls numpy.bool. */
static bool is_numpy_bool(PyObject *o) {
  PyObject *type = (PyObject *)Py_TYPE(o), *name = PyObject_GetAttrString(type, "__name__"), *module = PyObject_GetAttrString(type, "__module__");
  bool is = name && module && PyUnicode_Check(name) && PyUnicode_Check(module) && PyUnicode_CompareWithASCIIString(module, "numpy") == 0 &&
            (PyUnicode_CompareWithASCIIString(name, "bool_") == 0 || PyUnicode_CompareWithASCIIString(name, "bool") == 0);
  Py_XDECREF(name);
  Py_XDECREF(module);
  PyErr_Clear();
  return is;
}

bool to_bool(PyObject *o, const place *p, int32_t *out) {
  if (o == Py_True || o == Py_False) {
    *out = o == Py_True;
    return true;
  }
  if (!is_numpy_bool(o)) {
    wrong_type(p, "a bool", o);
    return false;
  }
  int truth = PyObject_IsTrue(o);
  *out = truth;
  return truth >= 0;
}

bool to_text(PyObject *o, const place *p, const char **data, uint64_t *size) {
  Py_ssize_t n = 0;
  if (PyUnicode_Check(o)) {
    *data = PyUnicode_AsUTF8AndSize(o, &n);
    *size = (uint64_t)n;
    if (*data) return true;
    if (PyErr_ExceptionMatches(PyExc_UnicodeError)) wrong_value(p, "a str that has no UTF-8 form");
    return false;
  }
  if (PyBytes_Check(o)) {
    char *bytes;
    if (PyBytes_AsStringAndSize(o, &bytes, &n) < 0) return false;
    *data = bytes;
    *size = (uint64_t)n;
    return true;
  }
  wrong_type(p, "str or bytes", o);
  return false;
}

PyObject *to_items(PyObject *o, const place *p) {
  if (!PySequence_Check(o) || PyUnicode_Check(o) || PyBytes_Check(o)) {
    wrong_type(p, "a list", o);
    return NULL;
  }
  return PySequence_Tuple(o);
}
