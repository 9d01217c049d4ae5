/* A store's life, its registered memory, and the calls about keys that move nothing. */
#include "native.h"

METHOD(store_new, 0) {
  (void)a;
  const library *lib = library_need();
  if (!lib) return NULL;
  mck_handle h;
  UNLOCKED(h = lib->store_new());
  return PyLong_FromLongLong(h);
}

/* Called by destructors: silent where the library is of no use, as in a child. */
METHOD(store_free, 1) {
  mck_handle h;
  if (!to_handle(a[0], &h)) return NULL;
  const library *lib = library_if_loaded();
  if (lib) UNLOCKED(lib->store_free(h));
  Py_RETURN_NONE;
}

/* Whether a signal's handler has raised: setup asks, which runs without the GIL. */
static int32_t interrupted(void *thread) {
  PyEval_RestoreThread(*(PyThreadState **)thread);
  int raised = PyErr_CheckSignals();
  *(PyThreadState **)thread = PyEval_SaveThread();
  return raised;
}

METHOD(store_setup, 4) {
  mck_handle h, engine;
  const char *settings;
  uint64_t size;
  int32_t positional, code;
  const library *lib;
  if (!to_handle(a[0], &h) || !to_text(a[1], NAMED("settings"), &settings, &size) || !to_bool(a[2], NAMED("positional"), &positional) ||
      !to_handle(a[3], &engine) || !(lib = library_need()))
    return NULL;
  PyThreadState *thread = PyEval_SaveThread();
  code = lib->store_setup(h, settings, size, positional, engine, interrupted, &thread);
  PyEval_RestoreThread(thread);
  return PyErr_Occurred() ? NULL : PyLong_FromLong(code);
}

METHOD(store_setup_dummy, 4) {
  mck_handle h;
  uint64_t pool, local, size;
  const char *address;
  int32_t code;
  const library *lib;
  if (!to_handle(a[0], &h) || !to_u64(a[1], NAMED("mem_pool_size"), &pool) || !to_u64(a[2], NAMED("local_buffer_size"), &local) ||
      !to_text(a[3], NAMED("server_address"), &address, &size) || !(lib = library_need()))
    return NULL;
  UNLOCKED(code = lib->store_setup_dummy(h, pool, local, address, size));
  return PyLong_FromLong(code);
}

bool call_int(PyObject *const *a, size_t offset, int32_t *code) {
  mck_handle h;
  const library *lib;
  if (!to_handle(a[0], &h) || !(lib = library_need())) return false;
  int32_t (*f)(mck_handle) = *(int32_t (*const *)(mck_handle))LIBRARY_AT(lib, offset);
  UNLOCKED(*code = f(h));
  return true;
}

METHOD(store_close, 1) {
  int32_t code;
  return call_int(a, offsetof(library, store_close), &code) ? PyLong_FromLong(code) : NULL;
}

METHOD(store_is_setup, 1) {
  int32_t yes;
  return call_int(a, offsetof(library, store_is_setup), &yes) ? PyBool_FromLong(yes == 1) : NULL;
}

METHOD(store_health, 1) {
  int32_t code;
  return call_int(a, offsetof(library, store_health), &code) ? PyLong_FromLong(code) : NULL;
}

METHOD(store_hostname, 1) {
  mck_handle h;
  const library *lib;
  mck_blob name;
  if (!to_handle(a[0], &h) || !(lib = library_need())) return NULL;
  UNLOCKED(name = lib->store_hostname(h));
  return str_of(lib, name);
}

METHOD(store_register, 3) {
  mck_handle h;
  uint64_t ptr, size;
  int32_t code;
  const library *lib;
  if (!to_handle(a[0], &h) || !to_u64(a[1], NAMED("buffer_ptr"), &ptr) || !to_u64(a[2], NAMED("size"), &size) || !(lib = library_need())) return NULL;
  UNLOCKED(code = lib->store_register(h, ptr, size));
  return PyLong_FromLong(code);
}

METHOD(store_unregister, 2) {
  mck_handle h;
  uint64_t ptr;
  int32_t code;
  const library *lib;
  if (!to_handle(a[0], &h) || !to_u64(a[1], NAMED("buffer_ptr"), &ptr) || !(lib = library_need())) return NULL;
  UNLOCKED(code = lib->store_unregister(h, ptr));
  return PyLong_FromLong(code);
}

PyObject *call_keys(PyObject *const *a, size_t offset) {
  scratch s;
  scratch_init(&s);
  PyObject *answer = NULL;
  mck_handle h;
  texts keys;
  int64_t *results;
  const library *lib;
  if (to_handle(a[0], &h) && to_texts(&s, a[1], "keys", 1, &keys) && (results = scratch_take(&s, keys.c.n, sizeof *results)) && (lib = library_need())) {
    void (*f)(mck_handle, mck_texts, int64_t *) = *(void (*const *)(mck_handle, mck_texts, int64_t *))LIBRARY_AT(lib, offset);
    UNLOCKED(f(h, keys.c, results));
    answer = list_of(results, keys.c.n);
  }
  scratch_free(&s);
  return answer;
}

METHOD(store_exist, 2) { return call_keys(a, offsetof(library, store_exist)); }

METHOD(store_size, 2) { return call_keys(a, offsetof(library, store_size)); }

METHOD(store_remove, 3) {
  scratch s;
  scratch_init(&s);
  PyObject *answer = NULL;
  mck_handle h;
  texts keys;
  int32_t force;
  int64_t *results;
  const library *lib;
  if (to_handle(a[0], &h) && to_texts(&s, a[1], "keys", 1, &keys) && to_bool(a[2], NAMED("force"), &force) &&
      (results = scratch_take(&s, keys.c.n, sizeof *results)) && (lib = library_need())) {
    UNLOCKED(lib->store_remove(h, keys.c, force, results));
    answer = list_of(results, keys.c.n);
  }
  scratch_free(&s);
  return answer;
}

METHOD(store_remove_regex, 3) {
  mck_handle h;
  const char *expr;
  uint64_t size;
  int32_t force;
  int64_t removed;
  const library *lib;
  if (!to_handle(a[0], &h) || !to_text(a[1], NAMED("regex_pattern"), &expr, &size) || !to_bool(a[2], NAMED("force"), &force) || !(lib = library_need()))
    return NULL;
  UNLOCKED(removed = lib->store_remove_regex(h, expr, size, force));
  return PyLong_FromLongLong(removed);
}

METHOD(store_remove_all, 2) {
  mck_handle h;
  int32_t force;
  int64_t removed;
  const library *lib;
  if (!to_handle(a[0], &h) || !to_bool(a[1], NAMED("force"), &force) || !(lib = library_need())) return NULL;
  UNLOCKED(removed = lib->store_remove_all(h, force));
  return PyLong_FromLongLong(removed);
}

METHOD(store_control, 3) {
  mck_handle h;
  const char *method, *args;
  uint64_t method_size, args_size;
  const library *lib;
  mck_blob answer;
  if (!to_handle(a[0], &h) || !to_text(a[1], NAMED("method"), &method, &method_size) || !to_text(a[2], NAMED("args"), &args, &args_size) ||
      !(lib = library_need()))
    return NULL;
  UNLOCKED(answer = lib->store_control(h, method, method_size, args, args_size));
  return str_of(lib, answer);
}

PyMethodDef store_methods[] = {
    METHOD_ENTRY(store_new, "store_new() -> int"),
    METHOD_ENTRY(store_free, "store_free(handle) -> None"),
    METHOD_ENTRY(store_setup, "store_setup(handle, settings, positional, engine) -> int"),
    METHOD_ENTRY(store_setup_dummy, "store_setup_dummy(handle, mem_pool_size, local_buffer_size, server_address) -> int"),
    METHOD_ENTRY(store_close, "store_close(handle) -> int"),
    METHOD_ENTRY(store_is_setup, "store_is_setup(handle) -> bool"),
    METHOD_ENTRY(store_health, "store_health(handle) -> int"),
    METHOD_ENTRY(store_hostname, "store_hostname(handle) -> str"),
    METHOD_ENTRY(store_register, "store_register(handle, buffer_ptr, size) -> int"),
    METHOD_ENTRY(store_unregister, "store_unregister(handle, buffer_ptr) -> int"),
    METHOD_ENTRY(store_exist, "store_exist(handle, keys) -> list[int]"),
    METHOD_ENTRY(store_size, "store_size(handle, keys) -> list[int]"),
    METHOD_ENTRY(store_remove, "store_remove(handle, keys, force) -> list[int]"),
    METHOD_ENTRY(store_remove_regex, "store_remove_regex(handle, regex_pattern, force) -> int"),
    METHOD_ENTRY(store_remove_all, "store_remove_all(handle, force) -> int"),
    METHOD_ENTRY(store_control, "store_control(handle, method, args) -> str"),
    {NULL, NULL, 0, NULL},
};
