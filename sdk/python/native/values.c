/* Arguments that are more than numbers and texts: buffers, and a ReplicateConfig. */
#include "native.h"

static bool view(scratch *s, PyObject *o, const place *p, uint64_t *ptr, uint64_t *size) {
  if (!PyObject_CheckBuffer(o)) {
    wrong_type(p, "an object with the buffer protocol (bytes, bytearray, memoryview, numpy array)", o);
    return false;
  }
  Py_buffer *v = &s->views[s->n_views];
  if (PyObject_GetBuffer(o, v, PyBUF_SIMPLE) < 0) {
    if (PyErr_ExceptionMatches(PyExc_BufferError) || PyErr_ExceptionMatches(PyExc_ValueError))
      wrong_value(p, "expected memory that is in one piece (C-contiguous) and not released");
    return false;
  }
  s->n_views++;
  *ptr = (uint64_t)(uintptr_t)v->buf;
  *size = (uint64_t)v->len;
  return true;
}

bool to_views(scratch *s, PyObject *o, const char *many, const char *one, mck_pieces *out) {
  place p = {.name = many, .depth = 1};
  PyObject *items;
  if (!many || (one && !PyList_Check(o) && !PyTuple_Check(o))) {
    p = (place){.name = one};
    items = PyTuple_Pack(1, o);
  } else {
    items = to_items(o, NAMED(many));
  }
  if (!items) return false;
  size_t n = (size_t)PyTuple_Size(items);
  uint64_t *ptrs = scratch_take(s, n, sizeof *ptrs), *sizes = ptrs ? scratch_take(s, n, sizeof *sizes) : NULL;
  bool ok = sizes && (s->views = scratch_take(s, n, sizeof *s->views));
  for (size_t i = 0; ok && i < n; i++) {
    p.at[0] = (Py_ssize_t)i;
    ok = view(s, PyTuple_GetItem(items, (Py_ssize_t)i), &p, &ptrs[i], &sizes[i]);
  }
  Py_DECREF(items); /* the views hold what they are of */
  *out = (mck_pieces){.ptrs = ptrs, .sizes = sizes, .n = n};
  return ok;
}

enum { HOW_FIELDS = 10 };

bool to_replicate(scratch *s, PyObject *o, mck_replicate *out) {
  *out = (mck_replicate){0};
  if (!PyTuple_Check(o) || PyTuple_Size(o) != HOW_FIELDS) {
    wrong_type(NAMED("how"), "a tuple of the 10 fields of ReplicateConfig", o);
    return false;
  }
  PyObject *f[HOW_FIELDS];
  for (int i = 0; i < HOW_FIELDS; i++) f[i] = PyTuple_GetItem(o, i);
  texts groups = {0}, segments;
  out->has_soft_pin_ttl = f[4] != Py_None;
  out->has_group_ids = f[8] != Py_None;
  bool ok = to_u64(f[0], NAMED("config.replica_num"), &out->replica_num) &&
            to_u64(f[1], NAMED("config.nof_replica_num"), &out->nof_replica_num) &&
            to_u64(f[2], NAMED("config.dfs_replica_num"), &out->dfs_replica_num) &&
            to_i32(f[3], NAMED("config.soft_pin_action"), &out->soft_pin_action) &&
            (!out->has_soft_pin_ttl || to_u64(f[4], NAMED("config.soft_pin_ttl_ms"), &out->soft_pin_ttl_ms)) &&
            to_bool(f[5], NAMED("config.with_hard_pin"), &out->with_hard_pin) &&
            to_bool(f[6], NAMED("config.prefer_alloc_in_same_node"), &out->prefer_alloc_in_same_node) &&
            to_i32(f[7], NAMED("config.data_type"), &out->data_type) &&
            (!out->has_group_ids || to_texts(s, f[8], "config.group_ids", 1, &groups)) &&
            to_texts(s, f[9], "config.preferred_segments", 1, &segments);
  if (!ok) return false;
  out->group_ids = groups.c;
  out->preferred_segments = segments.c;
  return true;
}
