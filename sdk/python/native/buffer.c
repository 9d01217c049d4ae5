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
  if (h->b.owner && !library_left_behind()) UNLOCKED(h->lib->buffers_free(&h->b.owner, 1));
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

bool reads_init(scratch *s, size_t n, reads *r) {
  *r = (reads){.n = n};
  return (r->at = scratch_take(s, n, sizeof *r->at)) && (r->owners = scratch_take(s, n, sizeof *r->owners)) &&
         (r->items = scratch_take(s, n, sizeof *r->items)) && (r->to = scratch_take(s, n, sizeof *r->to));
}

/* Forgets the items that were made, of n. */
static bool failed(reads *r, size_t n) {
  while (n > 0) Py_CLEAR(r->items[--n]);
  return false;
}

bool reads_bytes(const library *lib, reads *r) {
  size_t made = 0;
  while (made < r->n && (r->items[made] = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(r->at[made].owner ? r->at[made].size : 0)))) made++;
  for (size_t i = 0; i < r->n; i++) r->owners[i] = r->at[i].owner;
  for (size_t i = 0; i < made; i++) r->to[i] = PyBytes_AsString(r->items[i]);
  Py_BEGIN_ALLOW_THREADS /* No other reference to the bytes exists yet. */
  for (size_t i = 0; made == r->n && i < r->n; i++)
    if (r->at[i].owner) memcpy(r->to[i], memory_of(&r->at[i]), r->at[i].size);
  lib->buffers_free(r->owners, r->n);
  Py_END_ALLOW_THREADS
  return made == r->n || failed(r, made);
}

/* Copies memory that must not be written to, and frees it; other memory stays. False without memory. Runs without the GIL. */
static bool copy_lent(const library *lib, reads *r) {
  size_t copied = 0;
  bool ok = true;
  for (size_t i = 0; i < r->n; i++) {
    mck_buffer *b = &r->at[i];
    if (!b->owner || !b->read_only) continue;
    char *copy = malloc(b->size ? b->size : 1);
    if (copy && b->size) memcpy(copy, b->data, b->size);
    ok = ok && copy;
    r->owners[copied++] = b->owner;
    b->owner = 0;
    b->data = copy;
  }
  if (copied) lib->buffers_free(r->owners, copied);
  return ok;
}

/* The object as an item, which owns it then. NULL with MemoryError. */
static PyObject *handle_of(const library *lib, mck_buffer *b) {
  if (b->status != 0) {
    Py_INCREF(Py_None);
    return Py_None;
  }
  handle *h = PyObject_New(handle, handle_type);
  if (!h) return NULL;
  h->lib = lib;
  h->b = *b;
  h->own = b->read_only != 0;
  *b = (mck_buffer){0};
  return (PyObject *)h;
}

bool reads_handles(const library *lib, reads *r) {
  bool ok = true;
  size_t made = 0, lent = 0;
  while (lent < r->n && !(r->at[lent].owner && r->at[lent].read_only)) lent++;
  if (lent < r->n) UNLOCKED(ok = copy_lent(lib, r));
  if (!ok) PyErr_NoMemory();
  while (ok && made < r->n && (r->items[made] = handle_of(lib, &r->at[made]))) made++;
  if (made == r->n) return true;
  for (size_t i = 0; i < r->n; i++) { /* What no item owns. */
    r->owners[i] = r->at[i].owner;
    if (r->at[i].read_only && !r->at[i].owner) free(r->at[i].data);
  }
  UNLOCKED(lib->buffers_free(r->owners, r->n));
  return failed(r, made);
}
