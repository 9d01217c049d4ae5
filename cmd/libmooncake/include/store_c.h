/*
 * The store for programs in C, and for languages that call C: libmooncake.so.
 *
 * Texts end with a 0. Arguments are the caller's: they are read until the function returns,
 * never after. Every function may be called from any thread. Status numbers are 0 for
 * success and negative else: -1 for an argument that cannot be, such as NULL in place of a
 * store, and the numbers of the store's error codes (-704 object not found, -600 invalid
 * parameters, -200 no space, ...).
 */
#ifndef MOONCAKE_STORE_C_H
#define MOONCAKE_STORE_C_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A store: a number that is never used twice, not an address. */
#ifdef MOONCAKE_STORE_IS_NUMBER
typedef uintptr_t mooncake_store_t;
#else
typedef void *mooncake_store_t;
#endif

/* How an object is to be placed. NULL in its place is one copy anywhere. */
struct mooncake_replicate_config {
  size_t replica_num; /* copies, at least 1 */
  int with_soft_pin;  /* not 0: evicted last */
  int with_hard_pin;  /* not 0: never evicted */
  const char **preferred_segments; /* names of segments to try first, may be NULL */
  size_t preferred_segments_count;
};
typedef struct mooncake_replicate_config mooncake_replicate_config_t;

/* A store that is not set up; it acquires nothing. NULL never. */
mooncake_store_t mooncake_store_create(void);
/* Closes it, waiting, bounded, for calls in progress. */
void mooncake_store_destroy(mooncake_store_t store);

/* Connects to a pool. Sizes are in bytes; global_segment_size is what this process
 * contributes, may be 0. NULL for protocol is "tcp", for device_name every device, for
 * master_server_addr "127.0.0.1:50051". metadata_server is "P2PHANDSHAKE" or a service. */
int mooncake_store_setup(mooncake_store_t store, const char *local_hostname, const char *metadata_server,
                         uint64_t global_segment_size, uint64_t local_buffer_size, const char *protocol,
                         const char *device_name, const char *master_server_addr);
/* Setup as "localhost:12345" with etcd at 127.0.0.1:2379 and the master at 127.0.0.1:50051. */
int mooncake_store_init_all(mooncake_store_t store, const char *protocol, const char *device_name,
                            uint64_t mount_segment_size);
/* 0 healthy, 1 not set up, 2 the master does not answer. */
int mooncake_store_health_check(mooncake_store_t store);

/* A key that is there already is a success, and nothing is written. */
int mooncake_store_put(mooncake_store_t store, const char *key, const void *value, size_t size,
                       const mooncake_replicate_config_t *config);
/* The same; the memory should be registered. */
int mooncake_store_put_from(mooncake_store_t store, const char *key, void *buffer, size_t size,
                            const mooncake_replicate_config_t *config);
/* results_out takes one status for each key. */
int mooncake_store_batch_put_from(mooncake_store_t store, const char **keys, void **buffers, const size_t *sizes,
                                  size_t count, const mooncake_replicate_config_t *config, int *results_out);

/* The size of the object, or a negative status. Memory that is too small is not touched. */
int64_t mooncake_store_get_into(mooncake_store_t store, const char *key, void *buffer, size_t size);
int mooncake_store_batch_get_into(mooncake_store_t store, const char **keys, void **buffers, const size_t *sizes,
                                  size_t count, int64_t *results_out);

/* 1 for an object that can be read, which it then stays for a while, 0, or a status. */
int mooncake_store_is_exist(mooncake_store_t store, const char *key);
int mooncake_store_batch_is_exist(mooncake_store_t store, const char **keys, size_t count, int *results_out);
/* Bytes, or a status. */
int64_t mooncake_store_get_size(mooncake_store_t store, const char *key);
/* "host:port", the name of this process's segments. -1 where buf_len bytes are too few. */
int mooncake_store_get_hostname(mooncake_store_t store, char *buf_out, size_t buf_len);

/* force removes what is being read as well. */
int mooncake_store_remove(mooncake_store_t store, const char *key, int force);
/* How many were removed, or a status. */
int64_t mooncake_store_remove_by_regex(mooncake_store_t store, const char *pattern, int force);
int64_t mooncake_store_remove_all(mooncake_store_t store, int force);

/* Memory of the caller for moves without a copy. It stays in place until unregistered. */
int mooncake_store_register_buffer(mooncake_store_t store, void *buffer, size_t size);
int mooncake_store_unregister_buffer(mooncake_store_t store, void *buffer);

#ifdef __cplusplus
}
#endif

#endif
