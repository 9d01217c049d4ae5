/* Memory of C that calls write their answers to has what was there before, such as addresses
 * that the library gave and took back. Argument: the address of a master. The test has the
 * library collect garbage all the time. */
#include <pthread.h>
#include <stdint.h>
#include <string.h>

#include "check.h"
#include "mooncake_native.h"

enum { OBJECTS = 8, SIZE = 300 * 1000, ROUNDS = 100, THREADS = 4 };

static char names[OBJECTS];
static uint64_t ends[OBJECTS];
static mck_handle store;

static void *reads(void *unused) {
  mck_buffer out[OBJECTS];
  memset(out, 0x41, sizeof out);
  for (int round = 0; round < ROUNDS; round++) {
    mck_store_get_buffers(store, (mck_texts){names, ends, OBJECTS}, out);
    for (int i = 0; i < OBJECTS; i++) {
      IS(out[i].status, 0);
      IS(out[i].size, SIZE);
      IS(out[i].data[SIZE - 1], 'a' + i);
      mck_buffers_free(&out[i].owner, 1); /* The address stays in out. */
    }
  }
  return unused;
}

int main(int argc, char **argv) {
  WANT(argc == 2);
  char settings[256];
  int n = snprintf(settings, sizeof settings,
                   "{\"local_hostname\":\"127.0.0.1\",\"metadata_server\":\"P2PHANDSHAKE\",\"global_segment_size\":\"32MB\",\"master_server_addr\":\"%s\"}", argv[1]);
  store = mck_store_new();
  IS(mck_store_setup(store, settings, (uint64_t)n, 0, 0, NULL, NULL), 0);
  static char values[OBJECTS][SIZE];
  uint64_t ptrs[OBJECTS], sizes[OBJECTS];
  int64_t results[OBJECTS];
  for (int i = 0; i < OBJECTS; i++) {
    names[i] = (char)('a' + i);
    ends[i] = (uint64_t)i + 1;
    memset(values[i], names[i], SIZE);
    ptrs[i] = (uint64_t)(uintptr_t)values[i];
    sizes[i] = SIZE;
  }
  mck_replicate how = {.replica_num = 1};
  mck_store_put(store, (mck_texts){names, ends, OBJECTS}, (mck_pieces){ptrs, sizes, NULL, OBJECTS}, &how, MCK_PUT, results);
  for (int i = 0; i < OBJECTS; i++) IS(results[i], 0);
  pthread_t threads[THREADS];
  for (int i = 0; i < THREADS; i++) IS(pthread_create(&threads[i], NULL, reads, NULL), 0);
  for (int i = 0; i < THREADS; i++) IS(pthread_join(threads[i], NULL), 0);
  mck_store_free(store);
  return 0;
}
