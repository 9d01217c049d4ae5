/* A program that uses the store through store_c.h. Arguments: the address of a master, and
 * one where nobody listens. */
#include <pthread.h>
#include <stdint.h>
#include <string.h>

#include "check.h"
#include "store_c.h"

enum { objects = 32, object_size = 64 << 10 };

static void not_set_up(void) {
  char small[8];
  mooncake_store_t s = mooncake_store_create();
  WANT(s != NULL);
  IS(mooncake_store_health_check(s), 1);
  IS(mooncake_store_put(s, "k", "v", 1, NULL), -600);
  IS(mooncake_store_get_into(s, "k", small, sizeof small), -600);
  IS(mooncake_store_is_exist(s, "k"), -600);
  IS(mooncake_store_get_hostname(s, small, sizeof small), -1);
  IS(mooncake_store_remove_all(s, 1), -600);
  mooncake_store_destroy(s);
  mooncake_store_destroy(s); /* Twice does nothing. */
  IS(mooncake_store_put(s, "k", "v", 1, NULL), -1);
}

static void no_master(const char *nobody) {
  mooncake_store_t s = mooncake_store_create();
  WANT(mooncake_store_setup(s, "127.0.0.1", "P2PHANDSHAKE", 1 << 20, 0, "tcp", "", nobody) != 0);
  WANT(mooncake_store_setup(s, NULL, "P2PHANDSHAKE", 1 << 20, 0, NULL, NULL, nobody) == -600);
  mooncake_store_destroy(s);
}

static mooncake_store_t opened(const char *master, uint64_t segment) {
  mooncake_store_t s = mooncake_store_create();
  IS(mooncake_store_setup(s, "127.0.0.1", "P2PHANDSHAKE", segment, 16 << 20, "tcp", NULL, master), 0);
  IS(mooncake_store_health_check(s), 0);
  return s;
}

static void single_calls(mooncake_store_t s) {
  char name[64], two[2], to[16] = "................";
  IS(mooncake_store_get_hostname(s, name, sizeof name), 0);
  WANT(strncmp(name, "127.0.0.1:", 10) == 0);
  IS(mooncake_store_get_hostname(s, two, sizeof two), -1);

  mooncake_replicate_config_t how = {.replica_num = 1, .with_soft_pin = 1};
  const char *preferred[] = {name, NULL};
  how.preferred_segments = preferred;
  how.preferred_segments_count = 2;
  IS(mooncake_store_put(s, "one", "hello", 5, &how), 0);
  IS(mooncake_store_put(s, "one", "other", 5, NULL), 0); /* There already. */
  how.replica_num = 0;
  IS(mooncake_store_put(s, "two", "hello", 5, &how), -600);
  IS(mooncake_store_put(s, "two", NULL, 5, NULL), -1);
  IS(mooncake_store_put(s, NULL, "hello", 5, NULL), -1);
  IS(mooncake_store_put(NULL, "two", "hello", 5, NULL), -1);

  IS(mooncake_store_is_exist(s, "one"), 1);
  IS(mooncake_store_is_exist(s, "two"), 0);
  IS(mooncake_store_get_size(s, "one"), 5);
  IS(mooncake_store_get_size(s, "two"), -704);
  WANT(mooncake_store_get_into(s, "one", to, 4) < 0);
  IS(to[0], '.');
  IS(mooncake_store_get_into(s, "one", to, sizeof to), 5);
  WANT(memcmp(to, "hello.", 6) == 0);
  IS(mooncake_store_get_into(s, "two", to, sizeof to), -704);
  IS(mooncake_store_remove(s, "one", 0), -706); /* It was just read. */
  IS(mooncake_store_remove(s, "one", 1), 0);
  IS(mooncake_store_remove(s, "one", 1), -704);
}

/* Batches from and to memory that is registered, twice so. */
static void batches(mooncake_store_t s, char *prefix) {
  static const size_t bytes = (size_t)objects * object_size;
  char *from = malloc(bytes), *to = calloc(1, bytes), names[objects][32];
  const char *keys[objects];
  void *src[objects], *dst[objects];
  size_t sizes[objects];
  int put[objects], there[objects];
  int64_t got[objects];
  WANT(from != NULL && to != NULL);
  IS(mooncake_store_register_buffer(s, from, bytes), 0);
  IS(mooncake_store_register_buffer(s, to, bytes), 0);
  WANT(mooncake_store_register_buffer(s, to, bytes) != 0);
  for (int i = 0; i < objects; i++) {
    snprintf(names[i], sizeof names[i], "%s-%d", prefix, i);
    keys[i] = names[i];
    src[i] = from + (size_t)i * object_size;
    dst[i] = to + (size_t)i * object_size;
    sizes[i] = object_size;
    memset(src[i], prefix[0] + i, object_size);
  }
  IS(mooncake_store_batch_put_from(s, keys, src, sizes, objects, NULL, put), 0);
  IS(mooncake_store_batch_is_exist(s, keys, objects, there), 0);
  IS(mooncake_store_batch_get_into(s, keys, dst, sizes, objects, got), 0);
  for (int i = 0; i < objects; i++) {
    IS(put[i], 0);
    IS(there[i], 1);
    IS(got[i], object_size);
  }
  IS(memcmp(from, to, bytes), 0);
  keys[3] = NULL;
  IS(mooncake_store_batch_is_exist(s, keys, objects, there), -1);
  IS(mooncake_store_put_from(s, "from", from, 16, NULL), 0);
  IS(mooncake_store_unregister_buffer(s, from), 0);
  IS(mooncake_store_unregister_buffer(s, to), 0);
  WANT(mooncake_store_unregister_buffer(s, to) != 0);
  char pattern[32];
  snprintf(pattern, sizeof pattern, "^%s-", prefix);
  IS(mooncake_store_remove_by_regex(s, pattern, 1), objects);
  WANT(mooncake_store_remove_by_regex(s, "(", 1) < 0);
  free(from);
  free(to);
}

static void *in_thread(void *s) {
  char prefix[] = "x";
  static int next;
  prefix[0] = (char)('a' + __atomic_fetch_add(&next, 1, __ATOMIC_RELAXED));
  batches(s, prefix);
  return NULL;
}

int main(int argc, char **argv) {
  IS(argc, 3);
  not_set_up();
  no_master(argv[2]);
  mooncake_store_t holder = opened(argv[1], 64 << 20), s = opened(argv[1], 0);
  single_calls(holder);
  single_calls(s);
  pthread_t threads[4];
  for (int i = 0; i < 4; i++) IS(pthread_create(&threads[i], NULL, in_thread, i % 2 ? s : holder), 0);
  for (int i = 0; i < 4; i++) IS(pthread_join(threads[i], NULL), 0);
  IS(mooncake_store_remove_all(s, 1), 1); /* What was put under "from". */
  mooncake_store_destroy(s);
  mooncake_store_destroy(holder);
  puts("store_c.h: ok");
  return 0;
}
