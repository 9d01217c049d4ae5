/*
 * What the Python extension mooncake._native calls in libmooncake.so.
 *
 * Private: library and extension are built together, and mck_abi says whether they were.
 * Programs in C use store_c.h and transfer_engine_c.h.
 *
 * Handles are numbers, never 0, and never used twice. A call on a handle that is not there
 * answers MCK_INVALID_PARAMS, or what the function says. Every function may be called from
 * any thread, also while another one works on the same handle; one that frees a handle
 * waits, bounded, for the calls in progress. Arguments are the caller's and are read until
 * the function returns, never after. Status numbers are 0 for success and the negative
 * codes of sdk/errs else.
 */
#ifndef MOONCAKE_NATIVE_H
#define MOONCAKE_NATIVE_H

#include <stddef.h>
#include <stdint.h>

#define MCK_ABI 6
#define MCK_INVALID_PARAMS (-600)

typedef int64_t mck_handle;

/* n texts, one after the other: text i is data[i ? ends[i-1] : 0 .. ends[i]). UTF-8, no
 * terminator. */
typedef struct mck_texts {
  const char *data;
  const uint64_t *ends;
  uint64_t n;
} mck_texts;

/* The memory of n objects. Object i lies in the pieces rows[i] .. rows[i+1]-1, one after the
 * other; rows NULL is one piece each. Piece j is sizes[j] bytes at ptrs[j]. */
typedef struct mck_pieces {
  const uint64_t *ptrs;
  const uint64_t *sizes;
  const uint64_t *rows;
  uint64_t n;
} mck_pieces;

/* A ReplicateConfig. */
typedef struct mck_replicate {
  uint64_t replica_num;
  uint64_t nof_replica_num; /* Other than 0 is refused: there is no such memory. */
  uint64_t dfs_replica_num; /* As nof_replica_num. */
  int32_t soft_pin_action;  /* 0 preserve, 1 enable, 2 disable */
  int32_t has_soft_pin_ttl;
  uint64_t soft_pin_ttl_ms;
  int32_t with_hard_pin;
  int32_t prefer_alloc_in_same_node;
  int32_t data_type;
  int32_t has_group_ids;
  mck_texts group_ids; /* one for each key */
  mck_texts preferred_segments;
} mck_replicate;

/* Memory of the library: text or JSON. data is NULL when there is nothing; else it ends
 * with a 0 that size does not count. Give it back with mck_blob_free, which never waits. */
typedef struct mck_blob {
  char *data;
  uint64_t size;
} mck_blob;

/* An object that was read. owner is 0 and data NULL where status is not 0; else the memory
 * stays until mck_buffers_free gets the owner, whatever becomes of the store. Where read_only is not 0
 * it belongs to another process, and writing to it ends this one. */
typedef struct mck_buffer {
  uint64_t owner;
  char *data;
  uint64_t size;
  int64_t status;
  int64_t read_only;
} mck_buffer;

uint32_t mck_abi(void);
/* The program mooncake, for the launcher. Ends the process, and does not return. */
int mck_main(int argc, char **argv);
void mck_blob_free(mck_blob b);
void mck_buffers_free(const uint64_t *owners, uint64_t n); /* an owner of 0 is skipped */
/* Closes every store and engine, bounded; for the end of the process. */
void mck_close_all(void);
/* Why this thread's last call with a store or engine failed, as a sentence; empty where it
 * succeeded: each call forgets what the thread's last one failed on, except this one and
 * mck_store_is_setup. For a thread that made no call since the first failure it is the newest
 * failure of any thread. With handle 0, of mck_host_alloc and mck_host_free. */
mck_blob mck_last_error(mck_handle h);

/* --- store ----------------------------------------------------------------------------- */

mck_handle mck_store_new(void); /* acquires nothing */
/* Not 0 where the call that asks is to end. */
typedef int32_t (*mck_interrupted)(void *arg);
void mck_store_free(mck_handle s);
/* settings is a JSON object of texts, with the keys of the dict form of setup; positional is
 * not 0 where they come from the positional form, whose sizes are plain numbers without a
 * least size. engine is 0 or an initialized engine to be shared, which stays usable when
 * either is freed.
 *
 * It waits for the master, for max_wait_time. Where that passes the answer is -1 and the store
 * pending: calls can be made, and it joins the pool when the master answers. It asks
 * interrupted(arg) on the thread of the call, every 50 ms, unless that is NULL; when the answer is
 * not 0 it gives up, and the store is not set up. */
int32_t mck_store_setup(mck_handle s, const char *settings, uint64_t len, int32_t positional, mck_handle engine, mck_interrupted interrupted, void *arg);
/* Attaches to the mooncake_client at address "host:port" of this machine. */
int32_t mck_store_setup_dummy(mck_handle s, uint64_t mem_pool_size, uint64_t local_buffer_size, const char *address, uint64_t len);
int32_t mck_store_close(mck_handle s); /* 0 also without set-up; setup may follow */
int32_t mck_store_is_setup(mck_handle s); /* 1 where it is set up or pending, else 0 */
int32_t mck_store_health(mck_handle s); /* 0 healthy, 1 not set up, 2 master or mooncake_client unreachable */
mck_blob mck_store_hostname(mck_handle s); /* empty without set-up */

/* Registers memory for moves without a copy. With a dummy client exactly one allocation of
 * mck_host_alloc. */
int32_t mck_store_register(mck_handle s, uint64_t ptr, uint64_t size);
int32_t mck_store_unregister(mck_handle s, uint64_t ptr);

/* results has one number for each key. A key that is there already is a success. */
#define MCK_PUT 0
#define MCK_UPSERT 1
#define MCK_MAY_PREFER_NODE 2 /* added: prefer_alloc_in_same_node is not refused */
void mck_store_put(mck_handle s, mck_texts keys, mck_pieces from, const mck_replicate *how, int32_t flags, int64_t *results);
/* The size of each object, or a code. Memory that is too small is not touched. */
void mck_store_get_into(mck_handle s, mck_texts keys, mck_pieces to, int64_t *results);
/* Buffer b takes the fragments of its keys key_rows[b] .. key_rows[b+1]-1; of key k those of
 * frag_rows[k] .. frag_rows[k+1]-1: sizes[f] bytes of the object from src_offsets[f] on to
 * buffers[b] + dst_offsets[f]. The buffers must be registered. results is by fragment. */
void mck_store_get_ranges(mck_handle s, const uint64_t *buffers, uint64_t n_buffers, const uint64_t *key_rows, mck_texts keys,
                          const uint64_t *frag_rows, const uint64_t *dst_offsets, const uint64_t *src_offsets, const uint64_t *sizes,
                          int64_t *results);
/* out has one for each key. */
void mck_store_get_buffers(mck_handle s, mck_texts keys, mck_buffer *out);

void mck_store_exist(mck_handle s, mck_texts keys, int64_t *results); /* 1, 0 or a code */
void mck_store_size(mck_handle s, mck_texts keys, int64_t *results);  /* bytes or a code */
/* Where objects lie. counts gets how many replicas each key has, 0 for one that has none or
 * failed. The blob is numbers of 64 bits: how many endpoints there are and where the text of each
 * ends, then for each replica, key by key, its status, size, address, which of the endpoints
 * has it, and 1 if it lies on a storage tier, 0 if in memory. The texts of the endpoints follow.
 * Without any replica there is no blob. */
#define MCK_REPLICA_NUMBERS 5
mck_blob mck_store_replicas(mck_handle s, mck_texts keys, uint64_t *counts);
void mck_store_remove(mck_handle s, mck_texts keys, int32_t force, int64_t *results);
/* 1 for each key whose replicas on the segment are gone, "" for any segment; else 0 or a code. */
void mck_store_clear_replicas(mck_handle s, mck_texts keys, const char *segment, uint64_t len, int64_t *results);
int64_t mck_store_remove_regex(mck_handle s, const char *expr, uint64_t len, int32_t force); /* how many, or a code */
int64_t mck_store_remove_all(mck_handle s, int32_t force);

/* Sessions: the master is asked at the start and at the end, not by the calls between. The
 * pieces of one key are each at an offset of their own within the object, by piece. */
void mck_store_get_session_start(mck_handle s, mck_texts keys, int64_t *results);
void mck_store_get_session_ranges(mck_handle s, mck_texts keys, mck_pieces to, const uint64_t *src_offsets, int64_t *results); /* bytes */
int32_t mck_store_get_session_end(mck_handle s, mck_texts keys);
void mck_store_put_session_start(mck_handle s, mck_texts keys, const uint64_t *sizes, const mck_replicate *how, int64_t *results);
void mck_store_put_session_ranges(mck_handle s, mck_texts keys, mck_pieces from, const uint64_t *dst_offsets, int64_t *results); /* bytes */
void mck_store_put_session_end(mck_handle s, mck_texts keys, int64_t *results);
void mck_store_put_session_revoke(mck_handle s, mck_texts keys, int64_t *results);

/* What is rare: a method by name, its arguments as a JSON object, its answer as JSON. The
 * methods and their fields are in control.go. An answer always has "code". */
mck_blob mck_store_control(mck_handle s, const char *method, uint64_t method_len, const char *args, uint64_t args_len);

/* Memory that other processes of this host can map; 0 when there is none. */
uint64_t mck_host_alloc(uint64_t size);
int32_t mck_host_free(uint64_t ptr);

/* --- engine ---------------------------------------------------------------------------- */

mck_handle mck_engine_new(void); /* acquires nothing */
void mck_engine_free(mck_handle e);
/* settings is a JSON object of texts: local_hostname, metadata_server, protocol, device_name,
 * metadata_type. 0 or -1. */
int32_t mck_engine_initialize(mck_handle e, const char *settings, uint64_t len);
int32_t mck_engine_rpc_port(mck_handle e);
/* All or none: 0, or the negative number that transfer_engine_c.h has for the failure. */
int32_t mck_engine_register(mck_handle e, uint64_t n, const uint64_t *ptrs, const uint64_t *sizes, const char *location, uint64_t len);
int32_t mck_engine_unregister(mck_handle e, uint64_t n, const uint64_t *ptrs);
#define MCK_READ 0
#define MCK_WRITE 1
/* Moves n ranges between this process and target and waits. notify is "" or the name and
 * message to be delivered afterwards (two texts). 0 or negative. */
int32_t mck_engine_transfer(mck_handle e, const char *target, uint64_t len, int32_t opcode, uint64_t n, const uint64_t *ptrs,
                            const uint64_t *addrs, const uint64_t *sizes, mck_texts notify);
/* The same without waiting: the number of a batch, 0 when nothing was started. */
uint64_t mck_engine_submit(mck_handle e, const char *target, uint64_t len, int32_t opcode, uint64_t n, const uint64_t *ptrs,
                           const uint64_t *addrs, const uint64_t *sizes);
int32_t mck_engine_wait(mck_handle e, uint64_t n, const uint64_t *batches); /* 0 or -1, and frees them */
int32_t mck_engine_check(mck_handle e, uint64_t batch); /* 1 done, 0 in progress, -1 failed, -2 timed out; all but 0 free it */
uint64_t mck_engine_first_buffer(mck_handle e, const char *segment, uint64_t len);
mck_blob mck_engine_topology(const char *devices, uint64_t len); /* JSON; no engine needed */
mck_blob mck_engine_notifies(mck_handle e); /* JSON: [{"name","msg"}] */
int32_t mck_engine_probe(mck_handle e, const char *peer, uint64_t len); /* 0; -101 no such name, -102 no answer */
uint64_t mck_engine_alloc(mck_handle e, uint64_t size); /* registered memory, 0 when there is none */
int32_t mck_engine_free_memory(mck_handle e, uint64_t ptr, uint64_t size);

#endif
