/* Objects in and out of a store. */
#include "native.h"

/* Puts and answers a list of results, or the one result of a single put. */
static PyObject *put(scratch *s, mck_handle h, mck_texts keys, mck_pieces from, const mck_replicate *how, int32_t flags, bool single) {
  int64_t *results = scratch_take(s, keys.n, sizeof *results);
  const library *lib = results ? library_need() : NULL;
  if (!lib) return NULL;
  UNLOCKED(lib->store_put(h, keys, from, how, flags, results));
  return single ? PyLong_FromLongLong(results[0]) : list_of(results, keys.n);
}

METHOD(store_put_parts, 5) {
  scratch s;
  scratch_init(&s);
  PyObject *answer = NULL;
  mck_handle h;
  const char *key;
  uint64_t size;
  mck_pieces from;
  mck_replicate how;
  int32_t flags;
  if (to_handle(a[0], &h) && to_text(a[1], NAMED("key"), &key, &size) && to_views(&s, a[2], "parts", "value", &from) && to_replicate(&s, a[3], &how) &&
      to_i32(a[4], NAMED("flags"), &flags)) {
    const uint64_t rows[2] = {0, from.n};
    from.rows = rows;
    from.n = 1;
    answer = put(&s, h, (mck_texts){.data = key, .ends = &size, .n = 1}, from, &how, flags, true);
  }
  scratch_free(&s);
  return answer;
}

METHOD(store_put_values, 5) {
  scratch s;
  scratch_init(&s);
  PyObject *answer = NULL;
  mck_handle h;
  texts keys;
  mck_pieces from;
  mck_replicate how;
  int32_t flags;
  if (to_handle(a[0], &h) && to_texts(&s, a[1], "keys", 1, &keys) && to_views(&s, a[2], "values", NULL, &from) && to_replicate(&s, a[3], &how) &&
      to_i32(a[4], NAMED("flags"), &flags))
    answer = keys.c.n == from.n ? put(&s, h, keys.c, from, &how, flags, false) : list_filled(keys.c.n, MCK_INVALID_PARAMS);
  scratch_free(&s);
  return answer;
}

/* depth 1: one piece each; 2: several. */
static PyObject *put_from(PyObject *const *a, int depth) {
  scratch s;
  scratch_init(&s);
  PyObject *answer = NULL;
  mck_handle h;
  texts keys;
  numbers ptrs, sizes;
  mck_replicate how;
  int32_t flags;
  if (to_handle(a[0], &h) && to_texts(&s, a[1], "keys", 1, &keys) && to_numbers(&s, a[2], depth == 1 ? "buffer_ptrs" : "all_buffer_ptrs", depth, &ptrs) &&
      to_numbers(&s, a[3], depth == 1 ? "sizes" : "all_sizes", depth, &sizes) && to_replicate(&s, a[4], &how) && to_i32(a[5], NAMED("flags"), &flags)) {
    mck_pieces from = pieces_of(&ptrs, &sizes, depth == 2);
    bool fits = from.n == keys.c.n && ptrs.items.n == sizes.items.n && same_vector(&ptrs.rows[0], &sizes.rows[0]);
    answer = fits ? put(&s, h, keys.c, from, &how, flags, false) : list_filled(keys.c.n, MCK_INVALID_PARAMS);
  }
  scratch_free(&s);
  return answer;
}

METHOD(store_put_from, 6) { return put_from(a, 1); }

METHOD(store_put_from_rows, 6) { return put_from(a, 2); }

static PyObject *get_into(PyObject *const *a, int depth) {
  scratch s;
  scratch_init(&s);
  PyObject *answer = NULL;
  mck_handle h;
  texts keys;
  numbers ptrs, sizes;
  if (to_handle(a[0], &h) && to_texts(&s, a[1], "keys", 1, &keys) && to_numbers(&s, a[2], depth == 1 ? "buffer_ptrs" : "all_buffer_ptrs", depth, &ptrs) &&
      to_numbers(&s, a[3], depth == 1 ? "sizes" : "all_sizes", depth, &sizes)) {
    mck_pieces to = pieces_of(&ptrs, &sizes, depth == 2);
    int64_t *results;
    const library *lib;
    if (to.n != keys.c.n || ptrs.items.n != sizes.items.n || !same_vector(&ptrs.rows[0], &sizes.rows[0])) {
      answer = list_filled(keys.c.n, MCK_INVALID_PARAMS);
    } else if ((results = scratch_take(&s, keys.c.n, sizeof *results)) && (lib = library_need())) {
      UNLOCKED(lib->store_get_into(h, keys.c, to, results));
      answer = list_of(results, keys.c.n);
    }
  }
  scratch_free(&s);
  return answer;
}

METHOD(store_get_into, 4) { return get_into(a, 1); }

METHOD(store_get_into_rows, 4) { return get_into(a, 2); }

/* Reads the objects and makes an item of each; the scratch has the items. */
static bool get(scratch *s, PyObject *handle, mck_texts keys, bool (*make)(const library *lib, reads *r), reads *r) {
  mck_handle h;
  const library *lib;
  if (!to_handle(handle, &h) || !reads_init(s, keys.n, r) || !(lib = library_need())) return false;
  UNLOCKED(lib->store_get_buffers(h, keys, r->at));
  return make(lib, r);
}

static PyObject *get_batch(PyObject *const *a, bool (*make)(const library *lib, reads *r)) {
  scratch s;
  scratch_init(&s);
  texts keys;
  reads r;
  PyObject *answer = to_texts(&s, a[1], "keys", 1, &keys) && get(&s, a[0], keys.c, make, &r) ? list_items(r.items, r.n) : NULL;
  scratch_free(&s);
  return answer;
}

METHOD(store_get_batch, 2) { return get_batch(a, reads_bytes); }

METHOD(store_get_buffers, 2) { return get_batch(a, reads_handles); }

METHOD(store_get, 2) {
  scratch s;
  scratch_init(&s);
  const char *key;
  uint64_t size;
  reads r;
  bool ok = to_text(a[1], NAMED("key"), &key, &size) && get(&s, a[0], (mck_texts){.data = key, .ends = &size, .n = 1}, reads_bytes, &r);
  PyObject *answer = ok ? r.items[0] : NULL;
  scratch_free(&s);
  return answer;
}

PyMethodDef move_methods[] = {
    METHOD_ENTRY(store_put_parts, "store_put_parts(handle, key, parts, how, flags) -> int"),
    METHOD_ENTRY(store_put_values, "store_put_values(handle, keys, values, how, flags) -> list[int]"),
    METHOD_ENTRY(store_put_from, "store_put_from(handle, keys, buffer_ptrs, sizes, how, flags) -> list[int]"),
    METHOD_ENTRY(store_put_from_rows, "store_put_from_rows(handle, keys, all_buffer_ptrs, all_sizes, how, flags) -> list[int]"),
    METHOD_ENTRY(store_get_into, "store_get_into(handle, keys, buffer_ptrs, sizes) -> list[int]"),
    METHOD_ENTRY(store_get_into_rows, "store_get_into_rows(handle, keys, all_buffer_ptrs, all_sizes) -> list[int]"),
    METHOD_ENTRY(store_get, "store_get(handle, key) -> bytes"),
    METHOD_ENTRY(store_get_batch, "store_get_batch(handle, keys) -> list[bytes]"),
    METHOD_ENTRY(store_get_buffers, "store_get_buffers(handle, keys) -> list[BufferHandle | None]"),
    {NULL, NULL, 0, NULL},
};
