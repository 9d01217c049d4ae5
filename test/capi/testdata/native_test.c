/* A program that uses the store as the Python extension does. Argument: the address of a
 * master. */
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "mooncake_native.h"

static mck_texts one(const char *text, uint64_t *end) {
  *end = strlen(text);
  return (mck_texts){.data = text, .ends = end, .n = 1};
}

static mck_handle opened(const char *master) {
  char settings[256];
  int n = snprintf(settings, sizeof settings,
                   "{\"local_hostname\":\"127.0.0.1\",\"metadata_server\":\"P2PHANDSHAKE\",\"global_segment_size\":\"32MB\",\"master_server_addr\":\"%s\"}", master);
  mck_handle s = mck_store_new();
  WANT(s != 0);
  if (mck_store_setup(s, settings, (uint64_t)n, 0, 0, NULL, NULL) != 0) {
    mck_blob why = mck_last_error(s);
    fprintf(stderr, "setup: %.*s\n", (int)why.size, why.data);
    exit(1);
  }
  return s;
}

/* One of each call that a program makes often. */
static void mixed(mck_handle s, int i) {
  char name[32], value[512], to[512];
  uint64_t end, at = (uint64_t)(uintptr_t)value, size = sizeof value, into = (uint64_t)(uintptr_t)to;
  snprintf(name, sizeof name, "key-%d", i);
  memset(value, i, sizeof value);
  mck_texts key = one(name, &end);
  mck_replicate how = {.replica_num = 1};
  int64_t r = 7;
  mck_store_put(s, key, (mck_pieces){&at, &size, NULL, 1}, &how, MCK_PUT, &r);
  IS(r, 0);
  mck_store_exist(s, key, &r);
  IS(r, 1);
  mck_store_get_into(s, key, (mck_pieces){&into, &size, NULL, 1}, &r);
  IS(r, sizeof value);
  IS(memcmp(value, to, sizeof to), 0);
  mck_buffer b;
  mck_store_get_buffers(s, key, &b);
  IS(b.status, 0);
  IS(b.size, sizeof value);
  IS(memcmp(value, b.data, b.size), 0);
  mck_buffers_free(&b.owner, 1);
  mck_buffers_free(&b.owner, 1); /* Twice does nothing. */
  mck_store_remove(s, key, 1, &r);
  IS(r, 0);
  mck_store_size(s, key, &r);
  IS(r, -704);
  mck_store_get_buffers(s, key, &b);
  IS(b.status, -704);
  IS(b.owner, 0);
  WANT(b.data == NULL);
  mck_blob text = mck_last_error(s);
  WANT(text.size > 0 && strstr(text.data, "OBJECT_NOT_FOUND") != NULL);
  mck_blob_free(text);
  text = mck_store_hostname(s);
  WANT(text.size > 10 && text.data[text.size] == 0);
  mck_blob_free(text);
  text = mck_last_error(s);
  WANT(text.size == 0); /* A success clears it. */
  mck_blob_free(text);
}

static void wrong_handles(void) {
  int64_t r = 0;
  uint64_t end;
  mck_texts key = one("k", &end);
  mck_store_exist(12345, key, &r);
  IS(r, MCK_INVALID_PARAMS);
  mck_buffer b;
  mck_store_get_buffers(12345, key, &b);
  IS(b.status, MCK_INVALID_PARAMS);
  IS(mck_store_setup(12345, "{}", 2, 0, 0, NULL, NULL), MCK_INVALID_PARAMS);
  IS(mck_store_health(12345), 1);
  WANT(mck_last_error(12345).data == NULL);
  mck_blob_free(mck_store_hostname(12345));
  mck_store_free(12345);
}

/* Two objects in three pieces, whole and layer by layer. */
static void in_pieces(mck_handle s) {
  char from[] = "onetwothree", to[12] = "...........";
  const char *names = "pairsingle";
  uint64_t ends[] = {4, 10}, rows[] = {0, 2, 3}, sizes[] = {3, 3, 5}, totals[] = {6, 5}, offsets[] = {0, 3, 0}, src[3], dst[3];
  mck_texts keys = {names, ends, 2};
  mck_replicate how = {.replica_num = 1};
  int64_t r[3];
  for (int i = 0; i < 3; i++) {
    src[i] = (uint64_t)(uintptr_t)(from + 3 * i);
    dst[i] = (uint64_t)(uintptr_t)(to + 3 * i);
  }
  for (int layers = 0; layers < 2; layers++) {
    mck_pieces put = {src, sizes, rows, 2}, get = {dst, sizes, rows, 2};
    if (layers) {
      mck_store_put_session_start(s, keys, totals, &how, r);
      IS(r[0] | r[1], 0);
      mck_store_put_session_ranges(s, keys, put, offsets, r);
      IS(r[0], 6);
      IS(r[1], 5);
      mck_store_put_session_end(s, keys, r);
    } else {
      mck_store_put(s, keys, put, &how, MCK_PUT, r);
    }
    IS(r[0] | r[1], 0);
    memset(to, '.', sizeof to - 1);
    if (layers) {
      mck_store_get_session_start(s, keys, r);
      IS(r[0] | r[1], 0);
      mck_store_get_session_ranges(s, keys, get, offsets, r);
      IS(mck_store_get_session_end(s, keys), 0);
    } else {
      mck_store_get_into(s, keys, get, r);
    }
    IS(r[0], 6);
    IS(r[1], 5);
    WANT(strcmp(to, from) == 0);
    mck_store_remove(s, keys, 1, r);
    IS(r[0] | r[1], 0);
  }
  /* Fragments: "ee" and "on" of two objects into one registered buffer. */
  mck_store_put(s, keys, (mck_pieces){src, sizes, rows, 2}, &how, MCK_PUT, r);
  static char buffer[64];
  uint64_t at = (uint64_t)(uintptr_t)buffer, key_rows[] = {0, 2}, frag_rows[] = {0, 1, 2}, to_at[] = {1, 3}, from_at[] = {0, 3}, bytes[] = {2, 2};
  mck_store_get_ranges(s, &at, 1, key_rows, keys, frag_rows, to_at, from_at, bytes, r);
  IS(r[0], MCK_INVALID_PARAMS); /* Not registered. */
  IS(mck_store_register(s, at, sizeof buffer), 0);
  mck_store_get_ranges(s, &at, 1, key_rows, keys, frag_rows, to_at, from_at, bytes, r);
  IS(r[0], 2);
  IS(r[1], 2);
  WANT(strcmp(buffer + 1, "onee") == 0);
  IS(mck_store_unregister(s, at), 0);
  uint64_t counts[2];
  mck_blob where = mck_store_replicas(s, keys, counts);
  IS(counts[0], 1);
  IS(counts[1], 1);
  const uint64_t *numbers = (const uint64_t *)(const void *)where.data; /* One endpoint, the end of its text, and two replicas. */
  IS(numbers[0], 1);
  IS(numbers[2], 3);
  IS(numbers[3], 6);
  IS(numbers[6], 0); /* in memory */
  IS(numbers[2 + MCK_REPLICA_NUMBERS], 3);
  IS(numbers[3 + MCK_REPLICA_NUMBERS], 5);
  IS(where.size, 8 * (2 + 2 * MCK_REPLICA_NUMBERS) + numbers[1]);
  WANT(memchr(where.data + 8 * (2 + 2 * MCK_REPLICA_NUMBERS), ':', numbers[1]) != NULL);
  mck_blob_free(where);
  where = mck_store_replicas(s + 1000, keys, counts);
  WANT(where.data == NULL && counts[0] == 0 && counts[1] == 0);
}

/* What is lent and given back does not add up. */
static void lent(mck_handle s) {
  enum { large = 64 << 10 };
  static char value[large];
  uint64_t end, at = (uint64_t)(uintptr_t)value, size = large;
  mck_texts key = one("large", &end);
  mck_replicate how = {.replica_num = 1};
  int64_t r;
  mck_store_put(s, key, (mck_pieces){&at, &size, NULL, 1}, &how, MCK_PUT, &r);
  IS(r, 0);
  long long before = 0;
  for (int i = 0; i < 1100; i++) {
    if (i == 100) before = resident();
    mck_buffer b;
    mck_store_get_buffers(s, key, &b);
    IS(b.size, large);
    mck_buffers_free(&b.owner, 1);
  }
  WANT(resident() < before + 500LL * large);
}

/* The signals of the host are the host's: as they were when it began, be it under nohup. */
enum { SIGNALS = 6 };
static const int signals[SIGNALS] = {SIGINT, SIGTERM, SIGHUP, SIGCHLD, SIGALRM, SIGUSR1};
static struct sigaction given[SIGNALS];

static void look(struct sigaction *at) {
  for (int i = 0; i < SIGNALS; i++) {
    IS(sigaction(signals[i], NULL, &at[i]), 0);
    WANT(at[i].sa_handler == SIG_DFL || at[i].sa_handler == SIG_IGN);
  }
}

static void untouched(void) {
  struct sigaction now[SIGNALS];
  look(now);
  for (int i = 0; i < SIGNALS; i++) WANT(now[i].sa_handler == given[i].sa_handler);
}

int main(int argc, char **argv) {
  IS(argc, 2);
  look(given);
  IS(mck_abi(), MCK_ABI);
  wrong_handles();
  mck_handle s = opened(argv[1]);
  for (int i = 0; i < 100; i++) mixed(s, i);
  int before = descriptors();
  for (int i = 0; i < 1000; i++) mixed(s, i); /* About ten calls each. */
  for (int i = 0; i < 5; i++) {
    mck_handle other = opened(argv[1]);
    mixed(other, i);
    IS(mck_store_close(other), 0);
    IS(mck_store_close(other), 0);
    mck_store_free(other);
  }
  int after = descriptors(); /* The other sides of connections are closed a moment later. */
  for (int i = 0; i < 3000 && after > before + 2; i++) usleep(10000), after = descriptors();
  WANT(after <= before + 2);

  in_pieces(s);
  lent(s);
  untouched();

  mck_buffer kept; /* What was read stays when the store goes. */
  char value[] = "kept";
  uint64_t end, at = (uint64_t)(uintptr_t)value, size = 4;
  int64_t r;
  mck_replicate how = {.replica_num = 1};
  mck_store_put(s, one("kept", &end), (mck_pieces){&at, &size, NULL, 1}, &how, MCK_PUT, &r);
  IS(r, 0);
  mck_store_get_buffers(s, one("kept", &end), &kept);
  IS(kept.status, 0);
  uint64_t shared = mck_host_alloc(4096);
  WANT(shared != 0);
  memset((void *)(uintptr_t)shared, 1, 4096);
  IS(mck_host_free(shared), 0);
  WANT(mck_host_free(shared) != 0);
  mck_close_all();
  IS(mck_store_is_setup(s), 0);
  WANT(memcmp(kept.data, "kept", 4) == 0);
  mck_buffers_free(&kept.owner, 1);
  puts("mooncake_native.h: ok");
  return 0;
}
