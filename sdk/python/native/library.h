/*
 * The functions of libmooncake.so, loaded with the first call that needs one.
 *
 * Loading starts the Go runtime, whose threads a fork does not copy. So nothing is loaded
 * at import, and a child of a process that had loaded the library is refused.
 */
#ifndef MOONCAKE_LIBRARY_H
#define MOONCAKE_LIBRARY_H

#include <stdbool.h>

#include "mooncake_native.h"

/* Every function that the extension calls. Its type is that of the header. */
#define MCK_FUNCTIONS(X)                                                                            \
  X(abi) X(blob_free) X(buffers_free) X(close_all) X(last_error)                                     \
  X(store_new) X(store_free) X(store_setup) X(store_setup_dummy) X(store_close) X(store_is_setup)   \
  X(store_health) X(store_hostname) X(store_register) X(store_unregister)                           \
  X(store_put) X(store_get_into) X(store_get_ranges) X(store_get_buffers)                           \
  X(store_exist) X(store_size) X(store_replicas) X(store_remove) X(store_clear_replicas) X(store_remove_regex) X(store_remove_all)            \
  X(store_get_session_start) X(store_get_session_ranges) X(store_get_session_end)                   \
  X(store_put_session_start) X(store_put_session_ranges) X(store_put_session_end)                   \
  X(store_put_session_revoke) X(store_control) X(host_alloc) X(host_free)                           \
  X(engine_new) X(engine_free) X(engine_initialize) X(engine_rpc_port)                              \
  X(engine_register) X(engine_unregister) X(engine_transfer) X(engine_submit) X(engine_wait)        \
  X(engine_check) X(engine_first_buffer) X(engine_topology) X(engine_notifies) X(engine_probe)      \
  X(engine_alloc) X(engine_free_memory)

#define MCK_MEMBER(name) __typeof__(&mck_##name) name;
typedef struct library {
  MCK_FUNCTIONS(MCK_MEMBER)
} library;
#undef MCK_MEMBER

/* Loads the library where that has not been done. NULL with ImportError where it cannot be
 * loaded, with RuntimeError in a child. The GIL is held. */
const library *library_need(void);

/* The library where this process has loaded it, else NULL, and no exception. Needs no GIL. */
const library *library_if_loaded(void);

/* True in a child of a process that had loaded the library. */
bool library_left_behind(void);

/* Its path: beside this extension. The GIL is held. NULL where that cannot be found out. */
const char *library_path(void);

#endif
