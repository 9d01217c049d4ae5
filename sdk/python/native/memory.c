/* Memory that other processes of this host can map, and raw memory of this process. */
#include "native.h"

#include <string.h>

METHOD(host_alloc, 1) {
  uint64_t size, address;
  const library *lib;
  if (!to_u64(a[0], NAMED("size"), &size) || !(lib = library_need())) return NULL;
  UNLOCKED(address = lib->host_alloc(size));
  return PyLong_FromUnsignedLongLong(address);
}

METHOD(host_free, 1) {
  uint64_t address;
  int32_t code;
  const library *lib;
  if (!to_u64(a[0], NAMED("ptr"), &address) || !(lib = library_need())) return NULL;
  UNLOCKED(code = lib->host_free(address));
  return PyLong_FromLong(code);
}

/* For allocators of other libraries, which call from any thread and without the GIL. */
static void *alloc_func(size_t size) {
  const library *lib = library_if_loaded();
  return lib ? (void *)(uintptr_t)lib->host_alloc(size) : NULL;
}

static int free_func(void *ptr) {
  const library *lib = library_if_loaded();
  return lib ? lib->host_free((uint64_t)(uintptr_t)ptr) : -1;
}

METHOD(alloc_func_addr, 0) {
  (void)a;
  return library_need() ? PyLong_FromVoidPtr((void *)(uintptr_t)alloc_func) : NULL;
}

METHOD(free_func_addr, 0) {
  (void)a;
  return library_need() ? PyLong_FromVoidPtr((void *)(uintptr_t)free_func) : NULL;
}

static bool to_range(PyObject *address, PyObject *length, uint64_t *from, uint64_t *n) {
  if (!to_u64(address, NAMED("addr"), from) || !to_u64(length, NAMED("length"), n)) return false;
  if ((*from != 0 && *n <= PY_SSIZE_T_MAX && *from + *n >= *from) || *n == 0) return true;
  PyErr_Format(PyExc_ValueError, "addr: there is no memory of %llu bytes at %llu", (unsigned long long)*n, (unsigned long long)*from);
  return false;
}

METHOD(memory_write, 3) {
  uint64_t address, n;
  if (!to_range(a[0], a[2], &address, &n)) return NULL;
  scratch s;
  scratch_init(&s);
  PyObject *answer = NULL;
  mck_pieces data;
  if (to_views(&s, a[1], NULL, "data", &data)) {
    if (data.sizes[0] < n) {
      PyErr_Format(PyExc_ValueError, "length: %llu is more than the %llu bytes of data", (unsigned long long)n, (unsigned long long)data.sizes[0]);
    } else {
      if (n) UNLOCKED(memcpy((void *)(uintptr_t)address, (const void *)(uintptr_t)data.ptrs[0], n));
      answer = Py_None;
      Py_INCREF(answer);
    }
  }
  scratch_free(&s);
  return answer;
}

METHOD(memory_read, 2) {
  uint64_t address, n;
  if (!to_range(a[0], a[1], &address, &n)) return NULL;
  PyObject *bytes = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)n);
  char *to = bytes ? PyBytes_AsString(bytes) : NULL;
  if (to && n) UNLOCKED(memcpy(to, (const void *)(uintptr_t)address, n));
  return bytes;
}

PyMethodDef memory_methods[] = {
    METHOD_ENTRY(host_alloc, "host_alloc(size) -> int"),
    METHOD_ENTRY(host_free, "host_free(ptr) -> int"),
    METHOD_ENTRY(alloc_func_addr, "alloc_func_addr() -> int\n\nThe address of a C function void *f(size_t)."),
    METHOD_ENTRY(free_func_addr, "free_func_addr() -> int\n\nThe address of a C function int f(void *)."),
    METHOD_ENTRY(memory_write, "memory_write(addr, data, length) -> None"),
    METHOD_ENTRY(memory_read, "memory_read(addr, length) -> bytes"),
    {NULL, NULL, 0, NULL},
};
