#include "native.h"

struct block {
  block *older;
  _Alignas(16) char bytes[];
};

enum { ALIGN = 16, BLOCK = 64 << 10 };

void scratch_init(scratch *s) {
  s->next = s->first;
  s->end = s->first + sizeof s->first;
  s->blocks = NULL;
  s->views = NULL;
  s->n_views = 0;
}

void *scratch_take(scratch *s, size_t n, size_t size) {
  size_t need;
  if (__builtin_mul_overflow(n, size, &need) || need > PY_SSIZE_T_MAX - sizeof(block) - ALIGN) return PyErr_NoMemory();
  need = (need + ALIGN - 1) & ~(size_t)(ALIGN - 1);
  if (need == 0) need = ALIGN;
  if (need > (size_t)(s->end - s->next)) {
    size_t space = need > BLOCK ? need : BLOCK;
    block *b = PyMem_Malloc(sizeof *b + space);
    if (!b) return PyErr_NoMemory();
    b->older = s->blocks;
    s->blocks = b;
    s->next = b->bytes;
    s->end = b->bytes + space;
  }
  void *taken = s->next;
  s->next += need;
  return taken;
}

void scratch_free(scratch *s) {
  while (s->n_views > 0) PyBuffer_Release(&s->views[--s->n_views]);
  for (block *b = s->blocks, *older; b; b = older) {
    older = b->older;
    PyMem_Free(b);
  }
  s->blocks = NULL;
}
