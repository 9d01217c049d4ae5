/* BufferHandle: the memory of an object that was read, with the buffer protocol. */
#include "native.h"

#include <stdlib.h>
#include <string.h>

typedef struct handle {
  PyObject_HEAD
  const library *lib;
  mck_buffer b;
  bool own; /* b.data is of malloc; b.owner is 0 then */
} handle;

static PyTypeObject *handle_type; /* made once, lives as long as the process */

/* Where an object of no bytes lies. */
static char nothing[1];

static char *memory_of(const mck_buffer *b) { return b->data ? b->data : nothing; }

/* Only here: a memoryview holds a reference, so no other object uses the memory. */
static void handle_dealloc(PyObject *self) {
  handle *h = (handle *)self;
  PyTypeObject *type = Py_TYPE(self);
  if (h->b.owner && !library_left_behind()) UNLOCKED(h->lib->buffer_free(h->b.owner));
  if (h->own) free(h->b.data);
  PyObject_Free(self);
  Py_DECREF(type);
}

/* Writable, as the handle of upstream is: the memory is a copy, and torch.frombuffer warns
 * about what cannot be written. */
static int handle_get(PyObject *self, Py_buffer *view, int flags) {
  handle *h = (handle *)self;
  return PyBuffer_FillInfo(view, self, memory_of(&h->b), (Py_ssize_t)h->b.size, 0, flags);
}

static Py_ssize_t handle_length(PyObject *self) { return (Py_ssize_t)((handle *)self)->b.size; }

static PyObject *handle_ptr(PyObject *self, PyObject *Py_UNUSED(none)) { return PyLong_FromVoidPtr(memory_of(&((handle *)self)->b)); }

static PyObject *handle_size(PyObject *self, PyObject *Py_UNUSED(none)) { return PyLong_FromUnsignedLongLong(((handle *)self)->b.size); }

static PyObject *handle_repr(PyObject *self) { return PyUnicode_FromFormat("<BufferHandle of %zd bytes>", handle_length(self)); }

bool buffer_add_type(PyObject *module) {
  static PyMethodDef methods[] = {
      {"ptr", handle_ptr, METH_NOARGS, "ptr() -> int\n\nThe address of the bytes, valid as long as this object lives."},
      {"size", handle_size, METH_NOARGS, "size() -> int\n\nHow many bytes the object has."},
      {NULL, NULL, 0, NULL},
  };
  static PyType_Slot slots[] = {
      {Py_tp_doc, (char *)"The bytes of an object that was read. They stay until nothing refers to them, also after close()."},
      {Py_tp_dealloc, (void *)(uintptr_t)handle_dealloc},
      {Py_tp_repr, (void *)(uintptr_t)handle_repr},
      {Py_tp_methods, methods},
      {Py_sq_length, (void *)(uintptr_t)handle_length},
      {Py_bf_getbuffer, (void *)(uintptr_t)handle_get},
      {0, NULL},
  };
  static PyType_Spec spec = {
      .name = "mooncake.store.BufferHandle",
      .basicsize = sizeof(handle),
      .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
      .slots = slots,
  };
  if (!handle_type && !(handle_type = (PyTypeObject *)PyType_FromSpec(&spec))) return false;
  return PyModule_AddObjectRef(module, "BufferHandle", (PyObject *)handle_type) == 0;
}

/* A copy of memory that must not be written to; false with MemoryError. */
static bool copy_memory(const library *lib, mck_buffer *b) {
  char *copy;
  Py_BEGIN_ALLOW_THREADS
  copy = malloc(b->size ? b->size : 1);
  if (copy && b->size) memcpy(copy, b->data, b->size);
  lib->buffer_free(b->owner);
  Py_END_ALLOW_THREADS
  b->owner = 0;
  b->data = copy;
  if (!copy) PyErr_NoMemory();
  return copy != NULL;
}

PyObject *buffer_handle(const library *lib, const mck_buffer *b) {
  handle *h = PyObject_New(handle, handle_type);
  if (!h) {
    UNLOCKED(lib->buffer_free(b->owner));
    return NULL;
  }
  h->lib = lib;
  h->b = *b;
  h->own = false;
  if (b->read_only && !(h->own = copy_memory(lib, &h->b))) Py_CLEAR(h);
  return (PyObject *)h;
}

enum { SMALL = 64 << 10 }; /* copied faster than the GIL changes hands */

PyObject *buffer_bytes(const library *lib, const mck_buffer *b) {
  if (!b->owner) return PyBytes_FromStringAndSize("", 0);
  PyObject *bytes = b->size <= SMALL ? PyBytes_FromStringAndSize(memory_of(b), (Py_ssize_t)b->size) : PyBytes_FromStringAndSize(NULL, (Py_ssize_t)b->size);
  char *to = bytes && b->size > SMALL ? PyBytes_AsString(bytes) : NULL; /* no other reference exists yet */
  Py_BEGIN_ALLOW_THREADS
  if (to) memcpy(to, b->data, b->size);
  lib->buffer_free(b->owner);
  Py_END_ALLOW_THREADS
  return bytes;
}
