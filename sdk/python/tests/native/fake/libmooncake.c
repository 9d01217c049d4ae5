/*
 * A libmooncake.so for tests of the extension: it moves nothing, and says what it was
 * passed. mck_last_error answers the record of the last call, as text; every call reads all
 * memory it is given, so that a sanitizer sees what is not there.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mooncake_native.h"

#ifndef FAKE_ABI
#define FAKE_ABI MCK_ABI
#endif

#ifdef FAKE_TLS /* more thread-local memory than a process has left after its start */
static __thread volatile char big[FAKE_TLS] __attribute__((tls_model("initial-exec")));
#endif

static char record[1 << 20];
static size_t used;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static atomic_long with_gil, blobs, buffers;
static atomic_long gate; /* how many engine_wait may pass */

static void add(const char *format, ...) {
  va_list list;
  va_start(list, format);
  int n = vsnprintf(record + used, sizeof record - used, format, list);
  va_end(list);
  if (n > 0 && used + (size_t)n < sizeof record) used += (size_t)n;
}

static pid_t loaded_by;

__attribute__((constructor)) static void on_load(void) { loaded_by = getpid(); }

/* While calls are held, every function waits where it starts, 20 s at most: a call with the GIL would keep the test from letting it go. */
static atomic_int held;
static atomic_long came, left;

void fake_hold(int on) { atomic_store(&held, on); }
long fake_came(void) { return atomic_load(&came); }
long fake_inside(void) { return atomic_load(&came) - atomic_load(&left); }

static void wait_while_held(void) {
  atomic_fetch_add(&came, 1);
  for (int i = 0; i < 20000 && atomic_load(&held); i++) usleep(1000);
  atomic_fetch_add(&left, 1);
}

/* Every function starts here: counts calls that come with the GIL, and ends a child of a
 * fork, where a Go runtime would hang. */
static void watch(void) {
  if (getpid() != loaded_by) _exit(77);
  static int (*check)(void);
  if (!check) *(void **)&check = dlsym(RTLD_DEFAULT, "PyGILState_Check");
  if (check && check()) atomic_fetch_add(&with_gil, 1);
  if (atomic_load(&held)) wait_while_held();
}

static void begin(const char *call, mck_handle h) {
  watch();
  pthread_mutex_lock(&mutex);
  used = 0;
  add("%s %lld", call, (long long)h);
}

static void end(void) { pthread_mutex_unlock(&mutex); }

static void add_text(const char *name, const char *data, uint64_t size) { add(" %s=%.*s", name, (int)size, size ? data : ""); }

static void add_texts(const char *name, mck_texts t) {
  add(" %s=[", name);
  for (uint64_t i = 0, at = 0; i < t.n; at = t.ends[i++]) add("%s%.*s", i ? "," : "", (int)(t.ends[i] - at), t.data ? t.data + at : "");
  add("]");
}

static void add_numbers(const char *name, const uint64_t *v, uint64_t n) {
  add(" %s=[", name);
  for (uint64_t i = 0; i < n; i++) add("%s%llu", i ? "," : "", (unsigned long long)v[i]);
  add("]");
}

static uint64_t count(mck_pieces p) { return p.rows ? p.rows[p.n] : p.n; }

static void add_how(const mck_replicate *how) {
  add(" how=%llu,%llu,%llu,%d,%d:%llu,%d,%d,%d", (unsigned long long)how->replica_num, (unsigned long long)how->nof_replica_num,
      (unsigned long long)how->dfs_replica_num, how->soft_pin_action, how->has_soft_pin_ttl, (unsigned long long)how->soft_pin_ttl_ms,
      how->with_hard_pin, how->prefer_alloc_in_same_node, how->data_type);
  if (how->has_group_ids) add_texts("groups", how->group_ids);
  add_texts("segments", how->preferred_segments);
}

static mck_blob blob(const char *text) {
  mck_blob b = {strdup(text), strlen(text)};
  atomic_fetch_add(&blobs, 1);
  return b;
}

uint32_t mck_abi(void) {
#ifdef FAKE_TLS
  big[0] = 1;
#endif
  return FAKE_ABI;
}

/* The one function that may be called with the GIL. */
void mck_blob_free(mck_blob b) {
  free(b.data);
  atomic_fetch_sub(&blobs, 1);
}

void mck_buffers_free(const uint64_t *owners, uint64_t n) {
  watch();
  for (uint64_t i = 0; i < n; i++) {
    if (!owners[i]) continue;
    free((void *)(uintptr_t)owners[i]);
    atomic_fetch_sub(&buffers, 1);
  }
}

void mck_close_all(void) {
  begin("close_all", 0);
  end();
}

mck_blob mck_last_error(mck_handle h) {
  watch();
  if (h < 0) return (mck_blob){0};
  pthread_mutex_lock(&mutex);
  mck_blob b = blob(record);
  pthread_mutex_unlock(&mutex);
  return b;
}

/* --- store --- */

static atomic_llong next_handle = 1;

mck_handle mck_store_new(void) {
  begin("store_new", 0);
  end();
  return atomic_fetch_add(&next_handle, 1);
}

#define RECORDED(call, h, ...) \
  do {                         \
    begin(call, h);            \
    __VA_ARGS__;               \
    end();                     \
  } while (0)

void mck_store_free(mck_handle s) { RECORDED("store_free", s, ); }

/* The settings "wait" have it wait until it is interrupted, 20 s at most. */
int32_t mck_store_setup(mck_handle s, const char *settings, uint64_t len, int32_t positional, mck_handle engine, mck_interrupted interrupted, void *arg) {
  for (int i = 0; i < 2000 && len == 4 && memcmp(settings, "wait", 4) == 0 && !interrupted(arg); i++) usleep(10000);
  RECORDED("store_setup", s, add_text("settings", settings, len); add(" positional=%d engine=%lld", positional, (long long)engine));
  return -600;
}

int32_t mck_store_setup_dummy(mck_handle s, uint64_t pool, uint64_t local, const char *address, uint64_t len) {
  RECORDED("store_setup_dummy", s, add(" %llu %llu", (unsigned long long)pool, (unsigned long long)local); add_text("address", address, len));
  return -1;
}

#define ANSWERS(name, answer)            \
  int32_t mck_##name(mck_handle h) {     \
    RECORDED(#name, h, );                \
    return answer;                       \
  }
ANSWERS(store_close, 0)
ANSWERS(store_is_setup, h % 2)
ANSWERS(store_health, 2)
ANSWERS(engine_rpc_port, 12345)

mck_blob mck_store_hostname(mck_handle s) {
  RECORDED("store_hostname", s, );
  return s % 2 ? blob("localhost:12300") : (mck_blob){0};
}

int32_t mck_store_register(mck_handle s, uint64_t ptr, uint64_t size) {
  RECORDED("store_register", s, add(" %llu %llu", (unsigned long long)ptr, (unsigned long long)size));
  return 0;
}

int32_t mck_store_unregister(mck_handle s, uint64_t ptr) {
  RECORDED("store_unregister", s, add(" %llu", (unsigned long long)ptr));
  return -600;
}

/* Addresses below 4096 are numbers of a test, no memory. */
static int is_memory(uint64_t ptr) { return ptr >= 4096; }

void mck_store_put(mck_handle s, mck_texts keys, mck_pieces from, const mck_replicate *how, int32_t flags, int64_t *results) {
  begin("store_put", s);
  add_texts("keys", keys);
  add_numbers("sizes", from.sizes, count(from));
  if (from.rows) add_numbers("rows", from.rows, from.n + 1);
  add(" flags=%d", flags);
  add_how(how);
  add(" bytes=");
  for (uint64_t j = 0; j < count(from); j++) {
    unsigned sum = 0;
    for (uint64_t i = 0; is_memory(from.ptrs[j]) && i < from.sizes[j]; i++) sum += ((const unsigned char *)(uintptr_t)from.ptrs[j])[i];
    if (is_memory(from.ptrs[j])) add("%s%u", j ? "," : "", sum);
    else add("%s@%llu", j ? "," : "", (unsigned long long)from.ptrs[j]);
  }
  for (uint64_t i = 0; i < from.n; i++) results[i] = -(int64_t)i;
  end();
}

void mck_store_get_into(mck_handle s, mck_texts keys, mck_pieces to, int64_t *results) {
  begin("store_get_into", s);
  add_texts("keys", keys);
  add_numbers("ptrs", to.ptrs, count(to));
  add_numbers("sizes", to.sizes, count(to));
  if (to.rows) add_numbers("rows", to.rows, to.n + 1);
  for (uint64_t j = 0; j < count(to); j++)
    if (is_memory(to.ptrs[j])) memset((void *)(uintptr_t)to.ptrs[j], 'x', to.sizes[j]);
  for (uint64_t i = 0; i < to.n; i++) results[i] = (int64_t)i;
  end();
}

void mck_store_get_ranges(mck_handle s, const uint64_t *ptrs, uint64_t n, const uint64_t *key_rows, mck_texts keys, const uint64_t *frag_rows,
                          const uint64_t *dst, const uint64_t *src, const uint64_t *sizes, int64_t *results) {
  begin("store_get_ranges", s);
  add_numbers("buffers", ptrs, n);
  add_numbers("key_rows", key_rows, n + 1);
  add_texts("keys", keys);
  add_numbers("frag_rows", frag_rows, keys.n + 1);
  uint64_t fragments = frag_rows[keys.n];
  add_numbers("dst", dst, fragments);
  add_numbers("src", src, fragments);
  add_numbers("sizes", sizes, fragments);
  for (uint64_t i = 0; i < fragments; i++) results[i] = (int64_t)i;
  end();
}

/* "miss..." is not there, "big:N" has N bytes, "empty" none, others those of their name; "lent..." must not be
 * written to. */
void mck_store_get_buffers(mck_handle s, mck_texts keys, mck_buffer *out) {
  begin("store_get_buffers", s);
  add_texts("keys", keys);
  for (uint64_t i = 0, at = 0; i < keys.n; at = keys.ends[i++]) {
    char key[64] = {0};
    size_t n = keys.ends[i] - at;
    memcpy(key, keys.data + at, n < 63 ? n : 63);
    out[i] = (mck_buffer){.status = -704};
    if (strncmp(key, "miss", 4) == 0) continue;
    out[i].size = strncmp(key, "big:", 4) == 0 ? strtoull(key + 4, NULL, 10) : strcmp(key, "empty") == 0 ? 0 : n;
    out[i].data = malloc(out[i].size + 1);
    out[i].owner = (uint64_t)(uintptr_t)out[i].data;
    out[i].status = 0;
    out[i].read_only = strncmp(key, "lent", 4) == 0;
    memset(out[i].data, 'b', out[i].size);
    if (out[i].size == n) memcpy(out[i].data, key, n);
    atomic_fetch_add(&buffers, 1);
  }
  end();
}

#define BY_KEY(name, answer)                                          \
  void mck_##name(mck_handle s, mck_texts keys, int64_t *results) {   \
    begin(#name, s);                                                  \
    add_texts("keys", keys);                                          \
    for (uint64_t i = 0; i < keys.n; i++) results[i] = answer;        \
    end();                                                            \
  }
BY_KEY(store_exist, (int64_t)(i % 2))
BY_KEY(store_size, -704 + (int64_t)i)
BY_KEY(store_get_session_start, 0)
BY_KEY(store_put_session_end, -800)
BY_KEY(store_put_session_revoke, -1)

/* Key i has i % 3 replicas, each at the endpoint of its number, "é0" or "e1". "none" says that there is no memory. */
mck_blob mck_store_replicas(mck_handle s, mck_texts keys, uint64_t *counts) {
  begin("store_replicas", s);
  add_texts("keys", keys);
  end();
  static const char text[] = "\xc3\xa9" "0e1";
  uint64_t all = 0;
  for (uint64_t i = 0; i < keys.n; i++) all += counts[i] = i % 3;
  if (!all || (keys.n && keys.ends[0] == 4 && memcmp(keys.data, "none", 4) == 0)) return (mck_blob){0};
  uint64_t numbers = 3 + MCK_REPLICA_NUMBERS * all, size = 8 * numbers + strlen(text);
  uint64_t *to = malloc(size), *row = to + 3;
  to[0] = 2, to[1] = 3, to[2] = 5;
  for (uint64_t i = 0; i < keys.n; i++)
    for (uint64_t j = 0; j < counts[i]; j++, row += MCK_REPLICA_NUMBERS) row[0] = 3, row[1] = (1ULL << 63) + i, row[2] = j, row[3] = j, row[4] = j;
  memcpy(row, text, strlen(text));
  atomic_fetch_add(&blobs, 1);
  return (mck_blob){(char *)to, size};
}

void mck_store_remove(mck_handle s, mck_texts keys, int32_t force, int64_t *results) {
  begin("store_remove", s);
  add_texts("keys", keys);
  add(" force=%d", force);
  for (uint64_t i = 0; i < keys.n; i++) results[i] = -706;
  end();
}

void mck_store_clear_replicas(mck_handle s, mck_texts keys, const char *segment, uint64_t len, int64_t *results) {
  begin("store_clear_replicas", s);
  add_texts("keys", keys);
  add_text("segment", segment, len);
  for (uint64_t i = 0; i < keys.n; i++) results[i] = (int64_t)(i % 2);
  end();
}

int64_t mck_store_remove_regex(mck_handle s, const char *expr, uint64_t len, int32_t force) {
  RECORDED("store_remove_regex", s, add_text("expr", expr, len); add(" force=%d", force));
  return 3;
}

int64_t mck_store_remove_all(mck_handle s, int32_t force) {
  RECORDED("store_remove_all", s, add(" force=%d", force));
  return 1LL << 40;
}

static void session_ranges(const char *call, mck_handle s, mck_texts keys, mck_pieces p, const uint64_t *offsets, int64_t *results) {
  begin(call, s);
  add_texts("keys", keys);
  add_numbers("ptrs", p.ptrs, count(p));
  add_numbers("sizes", p.sizes, count(p));
  add_numbers("rows", p.rows, p.n + 1);
  add_numbers("offsets", offsets, count(p));
  for (uint64_t i = 0; i < keys.n; i++) results[i] = (int64_t)i + 100;
  end();
}

void mck_store_get_session_ranges(mck_handle s, mck_texts keys, mck_pieces to, const uint64_t *src, int64_t *results) {
  session_ranges("store_get_session_ranges", s, keys, to, src, results);
}

void mck_store_put_session_ranges(mck_handle s, mck_texts keys, mck_pieces from, const uint64_t *dst, int64_t *results) {
  session_ranges("store_put_session_ranges", s, keys, from, dst, results);
}

int32_t mck_store_get_session_end(mck_handle s, mck_texts keys) {
  RECORDED("store_get_session_end", s, add_texts("keys", keys));
  return 0;
}

void mck_store_put_session_start(mck_handle s, mck_texts keys, const uint64_t *sizes, const mck_replicate *how, int64_t *results) {
  begin("store_put_session_start", s);
  add_texts("keys", keys);
  add_numbers("sizes", sizes, keys.n);
  add_how(how);
  for (uint64_t i = 0; i < keys.n; i++) results[i] = 0;
  end();
}

/* What the library still holds: "with_gil blobs buffers", of which the answer is one. */
mck_blob mck_store_control(mck_handle s, const char *method, uint64_t len, const char *args, uint64_t args_len) {
  if (len == 4 && memcmp(method, "held", 4) == 0) {
    char text[96];
    snprintf(text, sizeof text, "[%ld,%ld,%ld]", with_gil, blobs, buffers);
    return blob(text);
  }
  RECORDED("store_control", s, add_text("method", method, len); add_text("args", args, args_len));
  return blob("{\"code\":0}");
}

uint64_t mck_host_alloc(uint64_t size) {
  RECORDED("host_alloc", 0, add(" %llu", (unsigned long long)size));
  return size ? (uint64_t)(uintptr_t)calloc(1, size) : 0;
}

int32_t mck_host_free(uint64_t ptr) {
  RECORDED("host_free", 0, );
  free((void *)(uintptr_t)ptr);
  return 0;
}

/* --- engine --- */

mck_handle mck_engine_new(void) { return mck_store_new(); }

void mck_engine_free(mck_handle e) { RECORDED("engine_free", e, ); }

int32_t mck_engine_initialize(mck_handle e, const char *settings, uint64_t len) {
  RECORDED("engine_initialize", e, add_text("settings", settings, len));
  return 0;
}

int32_t mck_engine_register(mck_handle e, uint64_t n, const uint64_t *ptrs, const uint64_t *sizes, const char *location, uint64_t len) {
  RECORDED("engine_register", e, add_numbers("ptrs", ptrs, n); add_numbers("sizes", sizes, n); add_text("location", location, len));
  return 0;
}

int32_t mck_engine_unregister(mck_handle e, uint64_t n, const uint64_t *ptrs) {
  RECORDED("engine_unregister", e, add_numbers("ptrs", ptrs, n));
  return 0;
}

static void add_move(const char *target, uint64_t len, int32_t opcode, uint64_t n, const uint64_t *ptrs, const uint64_t *addrs, const uint64_t *sizes) {
  add_text("target", target, len);
  add(" opcode=%d", opcode);
  add_numbers("ptrs", ptrs, n);
  add_numbers("addrs", addrs, n);
  add_numbers("sizes", sizes, n);
}

int32_t mck_engine_transfer(mck_handle e, const char *target, uint64_t len, int32_t opcode, uint64_t n, const uint64_t *ptrs, const uint64_t *addrs,
                            const uint64_t *sizes, mck_texts notify) {
  RECORDED("engine_transfer", e, add_move(target, len, opcode, n, ptrs, addrs, sizes); add_texts("notify", notify));
  return 0;
}

uint64_t mck_engine_submit(mck_handle e, const char *target, uint64_t len, int32_t opcode, uint64_t n, const uint64_t *ptrs, const uint64_t *addrs,
                           const uint64_t *sizes) {
  RECORDED("engine_submit", e, add_move(target, len, opcode, n, ptrs, addrs, sizes));
  return UINT64_MAX;
}

/* Waits for one engine_check(e, 99) from another thread where the batch is 99. */
int32_t mck_engine_wait(mck_handle e, uint64_t n, const uint64_t *batches) {
  RECORDED("engine_wait", e, add_numbers("batches", batches, n));
  if (n == 1 && batches[0] == 99) {
    while (atomic_load(&gate) == 0) sched_yield();
    atomic_fetch_sub(&gate, 1);
  }
  return 0;
}

int32_t mck_engine_check(mck_handle e, uint64_t batch) {
  RECORDED("engine_check", e, add(" %llu", (unsigned long long)batch));
  if (batch == 99) atomic_fetch_add(&gate, 1);
  return -2;
}

uint64_t mck_engine_first_buffer(mck_handle e, const char *segment, uint64_t len) {
  RECORDED("engine_first_buffer", e, add_text("segment", segment, len));
  return 1ULL << 63;
}

mck_blob mck_engine_topology(const char *devices, uint64_t len) {
  RECORDED("engine_topology", 0, add_text("devices", devices, len));
  return blob("{}");
}

mck_blob mck_engine_notifies(mck_handle e) {
  RECORDED("engine_notifies", e, );
  switch (e) {
    case 1: return blob("[{\"name\":\"a\",\"msg\":\"caf\xc3\xa9\"},{\"name\":\"b\",\"msg\":\"\"}]");
    case 2: return blob("[{\"name\":\"a\"}]");
    case 3: return blob("no JSON");
    default: return (mck_blob){0};
  }
}

int32_t mck_engine_probe(mck_handle e, const char *peer, uint64_t len) {
  RECORDED("engine_probe", e, add_text("peer", peer, len));
  return -1;
}

uint64_t mck_engine_alloc(mck_handle e, uint64_t size) {
  RECORDED("engine_alloc", e, add(" %llu", (unsigned long long)size));
  return 0;
}

int32_t mck_engine_free_memory(mck_handle e, uint64_t ptr, uint64_t size) {
  RECORDED("engine_free_memory", e, add(" %llu %llu", (unsigned long long)ptr, (unsigned long long)size));
  return 0;
}
