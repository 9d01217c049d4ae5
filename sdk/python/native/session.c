/* Ranges of objects: get_into_ranges, and the sessions. */
#include "native.h"

/* Entry i of a list of lists that ends with rows: from *at on, how many it has. */
static size_t row(const vector *rows, size_t i, size_t *at) {
  *at = 0;
  if (i + 1 >= rows->n) return 0;
  *at = rows->at[i];
  return rows->at[i + 1] - rows->at[i];
}

static size_t larger(size_t a, size_t b) { return a > b ? a : b; }

/* The answer about lists that do not fit together: at each place as many codes as the
 * longest of the lists has there. */
static PyObject *ranges_refused(const texts *keys, const numbers *lists, size_t n_lists, size_t n_buffers) {
  n_buffers = larger(n_buffers, keys->rows.n - 1);
  for (size_t l = 0; l < n_lists; l++) n_buffers = larger(n_buffers, lists[l].rows[1].n - 1);
  PyObject *answer = PyList_New((Py_ssize_t)n_buffers);
  for (size_t b = 0; answer && b < n_buffers; b++) {
    size_t first[3], n_in[3], at, n_keys = row(&keys->rows, b, &at);
    for (size_t l = 0; l < n_lists; l++) n_keys = larger(n_keys, n_in[l] = row(&lists[l].rows[1], b, &first[l]));
    PyObject *by_key = PyList_New((Py_ssize_t)n_keys);
    if (!list_set(answer, b, by_key)) Py_CLEAR(answer);
    for (size_t k = 0; answer && k < n_keys; k++) {
      size_t n = 0;
      for (size_t l = 0; l < n_lists; l++)
        if (k < n_in[l]) n = larger(n, row(&lists[l].rows[0], first[l] + k, &at));
      PyObject *codes = list_filled(n, MCK_INVALID_PARAMS);
      if (!list_set(by_key, k, codes)) Py_CLEAR(answer);
    }
  }
  return answer;
}

/* results[buffer][key][fragment] */
static PyObject *ranges_answer(const texts *keys, const numbers *list, const int64_t *results) {
  size_t n_buffers = keys->rows.n - 1;
  PyObject *answer = PyList_New((Py_ssize_t)n_buffers);
  for (size_t b = 0; answer && b < n_buffers; b++) {
    size_t first, n_keys = row(&keys->rows, b, &first);
    PyObject *by_key = PyList_New((Py_ssize_t)n_keys);
    if (!list_set(answer, b, by_key)) Py_CLEAR(answer);
    for (size_t k = 0; answer && k < n_keys; k++) {
      size_t at, n = row(&list->rows[0], first + k, &at);
      PyObject *codes = list_of(results + at, n);
      if (!list_set(by_key, k, codes)) Py_CLEAR(answer);
    }
  }
  return answer;
}

METHOD(store_get_ranges, 6) {
  scratch s;
  scratch_init(&s);
  PyObject *answer = NULL;
  mck_handle h;
  numbers buffers, l[3]; /* dst offsets, src offsets, sizes */
  texts keys;
  if (to_handle(a[0], &h) && to_numbers(&s, a[1], "buffer_ptrs", 1, &buffers) && to_texts(&s, a[2], "all_keys", 2, &keys) &&
      to_numbers(&s, a[3], "all_dst_offsets", 3, &l[0]) && to_numbers(&s, a[4], "all_src_offsets", 3, &l[1]) &&
      to_numbers(&s, a[5], "all_sizes", 3, &l[2])) {
    bool fits = buffers.items.n == keys.rows.n - 1;
    for (int i = 0; i < 3; i++) fits = fits && same_vector(&l[i].rows[1], &keys.rows) && same_vector(&l[i].rows[0], &l[0].rows[0]);
    int64_t *results;
    const library *lib;
    if (!fits) {
      answer = ranges_refused(&keys, l, 3, buffers.items.n);
    } else if ((results = scratch_take(&s, l[0].items.n, sizeof *results)) && (lib = library_need())) {
      UNLOCKED(lib->store_get_ranges(h, buffers.items.at, buffers.items.n, keys.rows.at, keys.c, l[0].rows[0].at, l[0].items.at, l[1].items.at,
                                     l[2].items.at, results));
      answer = ranges_answer(&keys, &l[0], results);
    }
  }
  scratch_free(&s);
  return answer;
}

METHOD(store_get_session_start, 2) { return call_keys(a, offsetof(library, store_get_session_start)); }

METHOD(store_put_session_end, 2) { return call_keys(a, offsetof(library, store_put_session_end)); }

METHOD(store_put_session_revoke, 2) { return call_keys(a, offsetof(library, store_put_session_revoke)); }

METHOD(store_get_session_end, 2) {
  scratch s;
  scratch_init(&s);
  PyObject *answer = NULL;
  mck_handle h;
  texts keys;
  int32_t code;
  const library *lib;
  if (to_handle(a[0], &h) && to_texts(&s, a[1], "keys", 1, &keys) && (lib = library_need())) {
    UNLOCKED(code = lib->store_get_session_end(h, keys.c));
    answer = PyLong_FromLong(code);
  }
  scratch_free(&s);
  return answer;
}

METHOD(store_put_session_start, 4) {
  scratch s;
  scratch_init(&s);
  PyObject *answer = NULL;
  mck_handle h;
  texts keys;
  numbers sizes;
  mck_replicate how;
  int64_t *results;
  const library *lib;
  if (to_handle(a[0], &h) && to_texts(&s, a[1], "keys", 1, &keys) && to_numbers(&s, a[2], "sizes", 1, &sizes) && to_replicate(&s, a[3], &how)) {
    if (sizes.items.n != keys.c.n) {
      answer = list_filled(keys.c.n, MCK_INVALID_PARAMS);
    } else if ((results = scratch_take(&s, keys.c.n, sizeof *results)) && (lib = library_need())) {
      UNLOCKED(lib->store_put_session_start(h, keys.c, sizes.items.at, &how, results));
      answer = list_of(results, keys.c.n);
    }
  }
  scratch_free(&s);
  return answer;
}

static PyObject *session_ranges(PyObject *const *a, bool put) {
  scratch s;
  scratch_init(&s);
  PyObject *answer = NULL;
  mck_handle h;
  texts keys;
  numbers ptrs, sizes, offsets;
  if (to_handle(a[0], &h) && to_texts(&s, a[1], "keys", 1, &keys) && to_numbers(&s, a[2], "all_buffer_ptrs", 2, &ptrs) &&
      to_numbers(&s, a[3], "all_sizes", 2, &sizes) && to_numbers(&s, a[4], put ? "all_dst_offsets" : "all_src_offsets", 2, &offsets)) {
    mck_pieces pieces = pieces_of(&ptrs, &sizes, true);
    bool fits = pieces.n == keys.c.n && same_vector(&ptrs.rows[0], &sizes.rows[0]) && same_vector(&ptrs.rows[0], &offsets.rows[0]);
    int64_t *results;
    const library *lib;
    if (!fits) {
      answer = list_filled(keys.c.n, MCK_INVALID_PARAMS);
    } else if ((results = scratch_take(&s, keys.c.n, sizeof *results)) && (lib = library_need())) {
      UNLOCKED((put ? lib->store_put_session_ranges : lib->store_get_session_ranges)(h, keys.c, pieces, offsets.items.at, results));
      answer = list_of(results, keys.c.n);
    }
  }
  scratch_free(&s);
  return answer;
}

METHOD(store_get_session_ranges, 5) { return session_ranges(a, false); }

METHOD(store_put_session_ranges, 5) { return session_ranges(a, true); }

PyMethodDef session_methods[] = {
    METHOD_ENTRY(store_get_ranges, "store_get_ranges(handle, buffer_ptrs, all_keys, all_dst_offsets, all_src_offsets, all_sizes) -> list[list[list[int]]]"),
    METHOD_ENTRY(store_get_session_start, "store_get_session_start(handle, keys) -> list[int]"),
    METHOD_ENTRY(store_get_session_ranges, "store_get_session_ranges(handle, keys, all_buffer_ptrs, all_sizes, all_src_offsets) -> list[int]"),
    METHOD_ENTRY(store_get_session_end, "store_get_session_end(handle, keys) -> int"),
    METHOD_ENTRY(store_put_session_start, "store_put_session_start(handle, keys, sizes, how) -> list[int]"),
    METHOD_ENTRY(store_put_session_ranges, "store_put_session_ranges(handle, keys, all_buffer_ptrs, all_sizes, all_dst_offsets) -> list[int]"),
    METHOD_ENTRY(store_put_session_end, "store_put_session_end(handle, keys) -> list[int]"),
    METHOD_ENTRY(store_put_session_revoke, "store_put_session_revoke(handle, keys) -> list[int]"),
    {NULL, NULL, 0, NULL},
};
