/* What the Go files see of transfer_engine_c.h; see cgo.h. An engine is a number in a
 * pointer's clothes: far from any address, so that Go, C and sanitizers leave it alone. */
#ifndef MOONCAKE_CLASSIC_H
#define MOONCAKE_CLASSIC_H

#include <stdlib.h>

#include "include/transfer_engine_c.h"

typedef const char te_const_char;

#define TE_BASE ((uint64_t)1 << 62)

static inline transfer_engine_t te_pointer(int64_t number) { return (transfer_engine_t)(uintptr_t)(TE_BASE | (uint64_t)number << 4); }

/* 0 for what is no engine. */
static inline int64_t te_number(transfer_engine_t engine) {
  uint64_t p = (uint64_t)(uintptr_t)engine;
  return (p & TE_BASE) && (p & 15) == 0 ? (int64_t)((p & ~TE_BASE) >> 4) : 0;
}

/* n messages without content; NULL where there is no memory. */
static inline notify_msg_t *te_messages(size_t n) { return (notify_msg_t *)calloc(n, sizeof(notify_msg_t)); }

#endif
