/* The transfer engine. */
#include "native.h"

METHOD(engine_new, 0) {
  (void)a;
  const library *lib = library_need();
  if (!lib) return NULL;
  mck_handle e;
  UNLOCKED(e = lib->engine_new());
  return PyLong_FromLongLong(e);
}

/* As store_free. */
METHOD(engine_free, 1) {
  mck_handle e;
  if (!to_handle(a[0], &e)) return NULL;
  const library *lib = library_if_loaded();
  if (lib) UNLOCKED(lib->engine_free(e));
  Py_RETURN_NONE;
}

METHOD(engine_initialize, 2) {
  mck_handle e;
  const char *settings;
  uint64_t size;
  int32_t code;
  const library *lib;
  if (!to_handle(a[0], &e) || !to_text(a[1], NAMED("settings"), &settings, &size) || !(lib = library_need())) return NULL;
  UNLOCKED(code = lib->engine_initialize(e, settings, size));
  return PyLong_FromLong(code);
}

METHOD(engine_rpc_port, 1) {
  int32_t port;
  return call_int(a, offsetof(library, engine_rpc_port), &port) ? PyLong_FromLong(port) : NULL;
}

METHOD(engine_register, 4) {
  scratch s;
  scratch_init(&s);
  PyObject *answer = NULL;
  mck_handle e;
  numbers ptrs, sizes;
  const char *location;
  uint64_t n;
  int32_t code = -1;
  const library *lib;
  if (to_handle(a[0], &e) && to_numbers(&s, a[1], "buffer_addresses", 1, &ptrs) && to_numbers(&s, a[2], "capacities", 1, &sizes) &&
      to_text(a[3], NAMED("location"), &location, &n) && (lib = library_need())) {
    if (ptrs.items.n == sizes.items.n) UNLOCKED(code = lib->engine_register(e, ptrs.items.n, ptrs.items.at, sizes.items.at, location, n));
    answer = PyLong_FromLong(code);
  }
  scratch_free(&s);
  return answer;
}

METHOD(engine_unregister, 2) {
  scratch s;
  scratch_init(&s);
  PyObject *answer = NULL;
  mck_handle e;
  numbers ptrs;
  int32_t code;
  const library *lib;
  if (to_handle(a[0], &e) && to_numbers(&s, a[1], "buffer_addresses", 1, &ptrs) && (lib = library_need())) {
    UNLOCKED(code = lib->engine_unregister(e, ptrs.items.n, ptrs.items.at));
    answer = PyLong_FromLong(code);
  }
  scratch_free(&s);
  return answer;
}

/* The arguments that a transfer and its form without waiting share, from a[0] on. */
typedef struct move {
  mck_handle e;
  const char *target;
  uint64_t target_size;
  int32_t opcode;
  numbers ptrs, addrs, sizes;
} move;

static bool to_move(scratch *s, PyObject *const *a, move *m) {
  if (!to_handle(a[0], &m->e) || !to_text(a[1], NAMED("target"), &m->target, &m->target_size) || !to_i32(a[2], NAMED("opcode"), &m->opcode)) return false;
  if (m->opcode != MCK_READ && m->opcode != MCK_WRITE) {
    wrong_value(NAMED("opcode"), "expected 0 (read) or 1 (write)");
    return false;
  }
  return to_numbers(s, a[3], "buffers", 1, &m->ptrs) && to_numbers(s, a[4], "peer_buffer_addresses", 1, &m->addrs) &&
         to_numbers(s, a[5], "lengths", 1, &m->sizes);
}

static bool move_fits(const move *m) { return m->ptrs.items.n == m->addrs.items.n && m->ptrs.items.n == m->sizes.items.n; }

METHOD(engine_transfer, 7) {
  scratch s;
  scratch_init(&s);
  PyObject *answer = NULL;
  move m;
  texts notify = {0};
  int32_t code = -1;
  const library *lib;
  if (to_move(&s, a, &m) && (a[6] == Py_None || to_texts(&s, a[6], "notify", 1, &notify)) && (lib = library_need())) {
    if (notify.c.n == 1 || notify.c.n > 2) {
      wrong_value(NAMED("notify"), "expected a name and a message");
    } else {
      if (move_fits(&m))
        UNLOCKED(code = lib->engine_transfer(m.e, m.target, m.target_size, m.opcode, m.ptrs.items.n, m.ptrs.items.at, m.addrs.items.at,
                                             m.sizes.items.at, notify.c));
      answer = PyLong_FromLong(code);
    }
  }
  scratch_free(&s);
  return answer;
}

METHOD(engine_submit, 6) {
  scratch s;
  scratch_init(&s);
  PyObject *answer = NULL;
  move m;
  uint64_t batch = 0;
  const library *lib;
  if (to_move(&s, a, &m) && (lib = library_need())) {
    if (move_fits(&m))
      UNLOCKED(batch = lib->engine_submit(m.e, m.target, m.target_size, m.opcode, m.ptrs.items.n, m.ptrs.items.at, m.addrs.items.at,
                                          m.sizes.items.at));
    answer = PyLong_FromUnsignedLongLong(batch);
  }
  scratch_free(&s);
  return answer;
}

METHOD(engine_wait, 2) {
  scratch s;
  scratch_init(&s);
  PyObject *answer = NULL;
  mck_handle e;
  numbers batches;
  int32_t code;
  const library *lib;
  if (to_handle(a[0], &e) && to_numbers(&s, a[1], "batch_ids", 1, &batches) && (lib = library_need())) {
    UNLOCKED(code = lib->engine_wait(e, batches.items.n, batches.items.at));
    answer = PyLong_FromLong(code);
  }
  scratch_free(&s);
  return answer;
}

METHOD(engine_check, 2) {
  mck_handle e;
  uint64_t batch;
  int32_t code;
  const library *lib;
  if (!to_handle(a[0], &e) || !to_u64(a[1], NAMED("batch_id"), &batch) || !(lib = library_need())) return NULL;
  UNLOCKED(code = lib->engine_check(e, batch));
  return PyLong_FromLong(code);
}

METHOD(engine_first_buffer, 2) {
  mck_handle e;
  const char *segment;
  uint64_t size, address;
  const library *lib;
  if (!to_handle(a[0], &e) || !to_text(a[1], NAMED("segment_name"), &segment, &size) || !(lib = library_need())) return NULL;
  UNLOCKED(address = lib->engine_first_buffer(e, segment, size));
  return PyLong_FromUnsignedLongLong(address);
}

METHOD(engine_topology, 1) {
  const char *devices;
  uint64_t size;
  const library *lib;
  mck_blob json;
  if (!to_text(a[0], NAMED("device_name"), &devices, &size) || !(lib = library_need())) return NULL;
  UNLOCKED(json = lib->engine_topology(devices, size));
  return str_of(lib, json);
}

METHOD(engine_probe, 2) {
  mck_handle e;
  const char *peer;
  uint64_t size;
  int32_t code;
  const library *lib;
  if (!to_handle(a[0], &e) || !to_text(a[1], NAMED("peer_server_name"), &peer, &size) || !(lib = library_need())) return NULL;
  UNLOCKED(code = lib->engine_probe(e, peer, size));
  return PyLong_FromLong(code);
}

METHOD(engine_alloc, 2) {
  mck_handle e;
  uint64_t size, address;
  const library *lib;
  if (!to_handle(a[0], &e) || !to_u64(a[1], NAMED("length"), &size) || !(lib = library_need())) return NULL;
  UNLOCKED(address = lib->engine_alloc(e, size));
  return PyLong_FromUnsignedLongLong(address);
}

METHOD(engine_free_memory, 3) {
  mck_handle e;
  uint64_t address, size;
  int32_t code;
  const library *lib;
  if (!to_handle(a[0], &e) || !to_u64(a[1], NAMED("addr"), &address) || !to_u64(a[2], NAMED("length"), &size) || !(lib = library_need())) return NULL;
  UNLOCKED(code = lib->engine_free_memory(e, address, size));
  return PyLong_FromLong(code);
}

PyMethodDef engine_methods[] = {
    METHOD_ENTRY(engine_new, "engine_new() -> int"),
    METHOD_ENTRY(engine_free, "engine_free(handle) -> None"),
    METHOD_ENTRY(engine_initialize, "engine_initialize(handle, settings) -> int"),
    METHOD_ENTRY(engine_rpc_port, "engine_rpc_port(handle) -> int"),
    METHOD_ENTRY(engine_register, "engine_register(handle, buffer_addresses, capacities, location) -> int"),
    METHOD_ENTRY(engine_unregister, "engine_unregister(handle, buffer_addresses) -> int"),
    METHOD_ENTRY(engine_transfer, "engine_transfer(handle, target, opcode, buffers, peer_buffer_addresses, lengths, notify) -> int"),
    METHOD_ENTRY(engine_submit, "engine_submit(handle, target, opcode, buffers, peer_buffer_addresses, lengths) -> int"),
    METHOD_ENTRY(engine_wait, "engine_wait(handle, batch_ids) -> int"),
    METHOD_ENTRY(engine_check, "engine_check(handle, batch_id) -> int"),
    METHOD_ENTRY(engine_first_buffer, "engine_first_buffer(handle, segment_name) -> int"),
    METHOD_ENTRY(engine_topology, "engine_topology(device_name) -> str"),
    METHOD_ENTRY(engine_probe, "engine_probe(handle, peer_server_name) -> int"),
    METHOD_ENTRY(engine_alloc, "engine_alloc(handle, length) -> int"),
    METHOD_ENTRY(engine_free_memory, "engine_free_memory(handle, addr, length) -> int"),
    {NULL, NULL, 0, NULL},
};
