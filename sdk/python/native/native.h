/*
 * mooncake._native: what its files share.
 *
 * A function of the module converts its arguments, calls one function of the library
 * without the GIL, and converts the answer. Everything it needs for that comes from a
 * scratch, which is freed on every way out.
 */
#ifndef MOONCAKE_EXTENSION_H
#define MOONCAKE_EXTENSION_H

#ifdef MOONCAKE_ABI3 /* the functions for buffers are in the stable ABI since 3.11 */
#define Py_LIMITED_API 0x030B0000
#endif
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdbool.h>

#include "library.h"

/* --- scratch.c: memory and buffers for the time of a call ------------------------------- */

typedef struct block block;
typedef struct scratch {
  char *next, *end; /* the free rest of the newest block */
  block *blocks;
  Py_buffer *views;
  size_t n_views;
  _Alignas(16) char first[2048];
} scratch;

void scratch_init(scratch *s);
/* n times size bytes, aligned to 16; NULL with MemoryError. The GIL is held. */
void *scratch_take(scratch *s, size_t n, size_t size);
/* Frees the memory and releases the views. The GIL is held. */
void scratch_free(scratch *s);

/* --- convert.c: arguments ---------------------------------------------------------------- */

/* What an argument is called in a TypeError: name, name[i], name[i][j] or name[i][j][k]. */
typedef struct place {
  const char *name;
  int depth;
  Py_ssize_t at[3];
} place;

#define NAMED(text) (&(place){.name = (text)})

/* False with TypeError for an invalid value; other exceptions pass through. */
bool to_handle(PyObject *o, mck_handle *out);
bool to_u64(PyObject *o, const place *p, uint64_t *out);
bool to_i32(PyObject *o, const place *p, int32_t *out);
bool to_bool(PyObject *o, const place *p, int32_t *out);
/* The bytes of a str or bytes; they are those of o. */
bool to_text(PyObject *o, const place *p, const char **data, uint64_t *size);
/* A tuple of the items of a sequence that is not str or bytes. A tuple does not change. */
PyObject *to_items(PyObject *o, const place *p);
/* TypeError "place: expected what, got the type of o". */
void wrong_type(const place *p, const char *what, PyObject *o);
/* TypeError "place: reason". */
void wrong_value(const place *p, const char *reason);

/* --- lists.c: nested lists of numbers and texts ------------------------------------------- */

typedef struct vector {
  uint64_t *at;
  size_t n, space;
} vector;

/* Items of all lists one after the other; rows[0] says where each innermost list ends, with
 * a 0 before, rows[1] the same of the lists around it. */
typedef struct numbers {
  vector items, rows[2];
} numbers;

typedef struct texts {
  mck_texts c;
  char *data;
  size_t used, space;
  vector ends, rows; /* rows as numbers.rows[0] */
} texts;

bool to_numbers(scratch *s, PyObject *o, const char *name, int depth, numbers *out);
bool to_texts(scratch *s, PyObject *o, const char *name, int depth, texts *out);
bool same_vector(const vector *a, const vector *b);
mck_pieces pieces_of(const numbers *ptrs, const numbers *sizes, bool rows);

/* The buffers of a sequence that is called many; where there is a name one, something that is
 * no list or tuple is one buffer. The scratch holds them. many NULL: always one. */
bool to_views(scratch *s, PyObject *o, const char *many, const char *one, mck_pieces *out);
/* The tuple called how in _native.pyi. */
bool to_replicate(scratch *s, PyObject *o, mck_replicate *out);

/* --- answers.c ----------------------------------------------------------------------------- */

/* Gives item to a list that was made with its length; false where item is NULL. */
bool list_set(PyObject *list, size_t i, PyObject *item);
PyObject *list_of(const int64_t *values, size_t n);
PyObject *list_filled(size_t n, int64_t value);
/* A list of the items, which it takes. */
PyObject *list_items(PyObject **items, size_t n);
/* A str of the blob, which is freed. */
PyObject *str_of(const library *lib, mck_blob b);
/* TypeError about a wrong number of arguments, as of a function in Python. */
PyObject *wrong_count(const char *function, int want, Py_ssize_t got);

/* --- buffer.c ------------------------------------------------------------------------------ */

bool buffer_add_type(PyObject *module);

/* n objects that a call reads, with what it takes to give all of them back at once. */
typedef struct reads {
  mck_buffer *at;
  uint64_t *owners;
  PyObject **items;
  char **to; /* the memory of the items */
  size_t n;
} reads;

/* Memory for n objects; false with MemoryError. */
bool reads_init(scratch *s, size_t n, reads *r);
/* Makes the items: a new bytes of each object, b"" for one that is not there. False with an exception, and without items.
 * Frees the objects. */
bool reads_bytes(const library *lib, reads *r);
/* Makes the items: a BufferHandle that owns each object, None for one that is not there. As reads_bytes on failure. */
bool reads_handles(const library *lib, reads *r);

/* --- replicas.c ---------------------------------------------------------------------------- */

bool replica_add_type(PyObject *module);

/* --- the functions of the module, by file ---------------------------------------------------- */

extern PyMethodDef library_methods[], store_methods[], replica_methods[], move_methods[], session_methods[], engine_methods[], notify_methods[], memory_methods[];

/* The function pointer of the table at an offset: of offsetof, so that it can be named
 * before the library is there. */
#define LIBRARY_AT(lib, offset) (const void *)((const char *)(lib) + (offset))
/* Calls int32_t f(handle) with a[0]. */
bool call_int(PyObject *const *a, size_t offset, int32_t *code);
/* Calls void f(handle, keys, results) with a[0] and a[1], and answers the results. */
PyObject *call_keys(PyObject *const *a, size_t offset);

/* METHOD(f, n) { ... } defines the function f of n positional arguments a[0] to a[n-1]. */
#define METHOD(function, count)                                                                        \
  static PyObject *function##_body(PyObject *const *a);                                                \
  static PyObject *function(PyObject *Py_UNUSED(module), PyObject *const *a, Py_ssize_t n) {           \
    return n == (count) ? function##_body(a) : wrong_count(#function, count, n);                       \
  }                                                                                                    \
  static PyObject *function##_body(PyObject *const *a)

#define METHOD_ENTRY(function, doc) {#function, (PyCFunction)(void (*)(void))function, METH_FASTCALL, doc}

/* Calls into the library without the GIL. */
#define UNLOCKED(statement) \
  do {                      \
    Py_BEGIN_ALLOW_THREADS  \
    statement;              \
    Py_END_ALLOW_THREADS    \
  } while (0)

#endif
