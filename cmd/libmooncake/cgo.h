/* What the Go files of this folder see of the headers. Go has no const: a function that
 * takes a pointer to const is exported with one of these types, so that the compiler can
 * check it against its header. */
#ifndef MOONCAKE_CGO_H
#define MOONCAKE_CGO_H

#define MOONCAKE_STORE_IS_NUMBER
#include "include/mooncake_native.h"
#include "include/store_c.h"

typedef const char mck_const_char;
typedef const uint64_t mck_const_u64;
typedef const mck_replicate mck_const_replicate;
typedef const size_t mck_const_size;
typedef const char *mck_const_text;
typedef const void *mck_const_memory;
typedef const mooncake_replicate_config_t mck_const_config;

#endif
