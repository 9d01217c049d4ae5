#include "native.h"

#include <string.h>

/* Space for n more. The items move to twice the memory; the scratch frees the old memory. */
static bool reserve(scratch *s, vector *v, size_t n) {
  if (v->space - v->n >= n) return true;
  size_t space = v->n + n > 2 * v->space ? v->n + n : 2 * v->space;
  uint64_t *at = scratch_take(s, space, sizeof *at);
  if (!at) return false;
  if (v->n) memcpy(at, v->at, v->n * sizeof *at);
  v->at = at;
  v->space = space;
  return true;
}

static bool push(scratch *s, vector *v, uint64_t value) {
  if (!reserve(s, v, 1)) return false;
  v->at[v->n++] = value;
  return true;
}

/* What takes the items of an innermost list. */
typedef bool (*take)(scratch *s, void *into, PyObject *item, const place *p);

/* Walks the lists and hands every item to each. rows[d] of the depth-1 vectors gets the ends
 * of the lists d levels above the innermost, as counts of what is one level below. */
static bool walk(scratch *s, PyObject *o, place *p, int depth, vector *items, vector *rows, take each, void *into) {
  PyObject *list = to_items(o, p);
  if (!list) return false;
  Py_ssize_t n = PyTuple_Size(list);
  vector *below = depth == 1 ? items : depth == 2 ? rows : rows + 1;
  bool ok = reserve(s, below, (size_t)n);
  int level = p->depth++;
  for (Py_ssize_t i = 0; ok && i < n; i++) {
    PyObject *item = PyTuple_GetItem(list, i);
    p->at[level] = i;
    if (depth == 1) {
      ok = each(s, into, item, p);
    } else {
      vector *counted = depth == 2 ? items : rows;
      ok = walk(s, item, p, depth - 1, items, rows, each, into) && push(s, below, depth == 2 ? counted->n : counted->n - 1);
    }
  }
  p->depth = level;
  Py_DECREF(list);
  return ok;
}

static bool take_number(scratch *s, void *into, PyObject *item, const place *p) {
  uint64_t value;
  return to_u64(item, p, &value) && push(s, &((numbers *)into)->items, value);
}

bool to_numbers(scratch *s, PyObject *o, const char *name, int depth, numbers *out) {
  *out = (numbers){0};
  place p = {.name = name};
  for (int i = 0; i < depth - 1; i++)
    if (!push(s, &out->rows[i], 0)) return false;
  return walk(s, o, &p, depth, &out->items, out->rows, take_number, out);
}

static bool take_text(scratch *s, void *into, PyObject *item, const place *p) {
  texts *t = into;
  const char *data;
  uint64_t size;
  if (!to_text(item, p, &data, &size)) return false;
  if (t->space - t->used < size) {
    size_t space = t->used + size > 2 * t->space ? t->used + size : 2 * t->space;
    if (space < 1024) space = 1024;
    char *more = scratch_take(s, space, 1);
    if (!more) return false;
    if (t->used) memcpy(more, t->data, t->used);
    t->data = more;
    t->space = space;
  }
  if (size) memcpy(t->data + t->used, data, size);
  t->used += size;
  return push(s, &t->ends, t->used);
}

bool to_texts(scratch *s, PyObject *o, const char *name, int depth, texts *out) {
  *out = (texts){0};
  place p = {.name = name};
  if (depth > 1 && !push(s, &out->rows, 0)) return false;
  if (!walk(s, o, &p, depth, &out->ends, &out->rows, take_text, out)) return false;
  out->c = (mck_texts){.data = out->data, .ends = out->ends.at, .n = out->ends.n};
  return true;
}

bool same_vector(const vector *a, const vector *b) {
  return a->n == b->n && (a->n == 0 || memcmp(a->at, b->at, a->n * sizeof *a->at) == 0);
}

mck_pieces pieces_of(const numbers *ptrs, const numbers *sizes, bool rows) {
  return (mck_pieces){
      .ptrs = ptrs->items.at,
      .sizes = sizes->items.at,
      .rows = rows ? ptrs->rows[0].at : NULL,
      .n = rows ? ptrs->rows[0].n - 1 : ptrs->items.n,
  };
}
