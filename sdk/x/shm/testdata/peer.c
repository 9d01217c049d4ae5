/* The other end of the rings in c_test.go. Exit codes: 0 all is well, 3 the ring is corrupt, 1 a mistake of the library. */
#define _GNU_SOURCE
#include "mooncake_ring.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CORRUPT 3

/* Ends the program with a line unless a condition holds. */
#define NEED(ok)                                                                 \
  do {                                                                           \
    if (!(ok)) {                                                                 \
      fprintf(stderr, "%s:%d: not so: %s (errno %d)\n", __FILE__, __LINE__, #ok, errno); \
      exit(1);                                                                   \
    }                                                                            \
  } while (0)

static uint64_t random_state;

static uint64_t draw(void) {
  random_state ^= random_state << 13;
  random_state ^= random_state >> 7;
  random_state ^= random_state << 17;
  return random_state;
}

static void check(int64_t got) {
  if (got == MOONCAKE_RING_CORRUPT) exit(CORRUPT);
  if (got < 0) fprintf(stderr, "%s\n", mooncake_ring_error(got));
  NEED(got >= 0);
}

/* Sends every entry back with all bits inverted, in batches at random, until one begins with all ones. */
static void echo(uint32_t entries, uint32_t size) {
  int64_t bytes = mooncake_ring_bytes(entries, size);
  void *memory;
  mooncake_ring in, out;
  uint64_t entry[MOONCAKE_RING_MAX_ENTRY / 8];
  NEED(bytes > 0 && mooncake_ring_map(3, (size_t)(2 * bytes), &memory) == 0);
  NEED(mooncake_ring_consumer(&in, memory, (size_t)bytes, entries, size, 4) == 0);
  NEED(mooncake_ring_producer(&out, (uint8_t *)memory + bytes, (size_t)bytes, entries, size, 5) == 0);
  for (int last = 0; !last;) {
    int64_t ready = mooncake_ring_wait(&in, -1, -1);
    if (ready == MOONCAKE_RING_CLOSED) break;
    check(ready);
    int64_t space = mooncake_ring_free(&out);
    check(space);
    /* The producer never has more in flight than a ring holds, so that the answers fit. */
    if (space < ready) exit(CORRUPT);
    uint32_t n = ready == 0 ? 0 : 1 + (uint32_t)(draw() % (uint64_t)ready);
    for (uint32_t i = 0; i < n; i++) {
      check(mooncake_ring_copy(&in, i, entry));
      last |= entry[0] == UINT64_MAX;
      for (uint32_t k = 0; k < size / 8; k++) entry[k] = ~entry[k];
      check(mooncake_ring_put(&out, entry, size));
    }
    check(mooncake_ring_release(&in, n));
    check(mooncake_ring_publish(&out));
  }
  NEED(mooncake_ring_unmap(memory, (size_t)(2 * bytes)) == 0);
}

/* Arguments that are refused, and nothing is touched. */
static void arguments(void) {
  static const uint32_t bad[][2] = {{0, 64}, {3, 64}, {131072, 64}, {8, 0}, {8, 4}, {8, 12}, {8, 4104}, {UINT32_MAX, UINT32_MAX}};
  uint8_t *memory = aligned_alloc(128, 1024);
  mooncake_ring r;
  uint64_t entry[8] = {0};
  int ends[2];
  NEED(memory != NULL && pipe(ends) == 0);
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    NEED(mooncake_ring_bytes(bad[i][0], bad[i][1]) == MOONCAKE_RING_INVALID);
    NEED(mooncake_ring_consumer(&r, memory, 1024, bad[i][0], bad[i][1], ends[0]) == MOONCAKE_RING_INVALID);
  }
  NEED(mooncake_ring_bytes(8, 64) == 896 && mooncake_ring_bytes(1, 8) == 512 && mooncake_ring_bytes(65536, 4096) == 268435840);
  NEED(mooncake_ring_producer(&r, memory, 895, 8, 64, ends[1]) == MOONCAKE_RING_INVALID);
  NEED(mooncake_ring_producer(&r, memory + 64, 896, 8, 64, ends[1]) == MOONCAKE_RING_INVALID);
  NEED(mooncake_ring_producer(&r, NULL, 896, 8, 64, ends[1]) == MOONCAKE_RING_INVALID);
  NEED(mooncake_ring_producer(&r, memory, 896, 8, 64, -1) == MOONCAKE_RING_INVALID);
  memset(memory, 0, 1024);
  NEED(mooncake_ring_producer(&r, memory, 896, 8, 64, ends[1]) == 0);
  NEED(mooncake_ring_put(&r, entry, 65) == MOONCAKE_RING_INVALID);
  NEED(mooncake_ring_ready(&r) == MOONCAKE_RING_INVALID && mooncake_ring_copy(&r, 0, entry) == MOONCAKE_RING_INVALID);
  NEED(mooncake_ring_wait(&r, -1, 0) == MOONCAKE_RING_INVALID && mooncake_ring_release(&r, 0) == MOONCAKE_RING_INVALID);
  for (int i = 0; i < 8; i++) NEED(mooncake_ring_put(&r, entry, 64) == 0);
  NEED(mooncake_ring_put(&r, entry, 64) == MOONCAKE_RING_FULL && mooncake_ring_free(&r) == 0);
  NEED(mooncake_ring_publish(&r) == 0);
  mooncake_ring c;
  NEED(mooncake_ring_consumer(&c, memory, 896, 8, 64, ends[0]) == 0);
  NEED(mooncake_ring_copy(&c, 0, entry) == MOONCAKE_RING_INVALID); /* Before ready. */
  NEED(mooncake_ring_ready(&c) == 8 && mooncake_ring_copy(&c, 8, entry) == MOONCAKE_RING_INVALID);
  NEED(mooncake_ring_release(&c, 9) == MOONCAKE_RING_INVALID && mooncake_ring_release(&c, 8) == 0);
  NEED(mooncake_ring_put(&c, entry, 8) == MOONCAKE_RING_INVALID && mooncake_ring_free(&c) == MOONCAKE_RING_INVALID);
  NEED(mooncake_ring_wait(&c, -1, 0) == 0 && mooncake_ring_free(&r) == 8);
  /* A producer that rings, a wait that another descriptor ends, and the end of the bell. */
  NEED(mooncake_ring_arm(&c) == 0 && mooncake_ring_put(&r, NULL, 0) == 0 && mooncake_ring_publish(&r) == 0);
  uint8_t rung[16];
  NEED(read(ends[0], rung, sizeof rung) == 8 && mooncake_ring_disarm(&c) == 0);
  NEED(mooncake_ring_wait(&c, -1, -1) == 1 && mooncake_ring_release(&c, 1) == 0);
  int wake[2];
  NEED(pipe(wake) == 0 && write(wake[1], "x", 1) == 1 && mooncake_ring_wait(&c, wake[0], -1) == 0);
  close(ends[1]);
  NEED(mooncake_ring_wait(&c, -1, -1) == MOONCAKE_RING_CLOSED);
  NEED(mooncake_ring_map(wake[0], 896, (void **)&memory) == MOONCAKE_RING_INVALID); /* No memory file. */
  free(memory);
}

/* The indices wrap around at 2^64. */
static void wrap(void) {
  uint8_t *memory = aligned_alloc(128, 512);
  int ends[2];
  mooncake_ring p, c;
  NEED(memory != NULL && pipe(ends) == 0);
  memset(memory, 0, 512);
  NEED(mooncake_ring_producer(&p, memory, 512, 4, 8, ends[1]) == 0 && mooncake_ring_consumer(&c, memory, 512, 4, 8, ends[0]) == 0);
  uint64_t start = UINT64_MAX - 9;
  p.next = p.published = p.theirs = c.next = c.theirs = start;
  memcpy(memory, &start, 8);
  memcpy(memory + 128, &start, 8);
  for (uint64_t i = 0; i < 40;) {
    int64_t space = mooncake_ring_free(&p);
    NEED(space == 4);
    uint64_t n = 1 + draw() % 4;
    for (uint64_t k = 0; k < n; k++) {
      uint64_t v = i + k;
      NEED(mooncake_ring_put(&p, &v, 8) == 0);
    }
    NEED(mooncake_ring_publish(&p) == 0 && mooncake_ring_ready(&c) == (int64_t)n);
    for (uint64_t k = 0, v; k < n; k++) NEED(mooncake_ring_copy(&c, (uint32_t)k, &v) == 0 && v == i + k);
    NEED(mooncake_ring_release(&c, (uint32_t)n) == 0);
    i += n;
  }
  free(memory);
}

/* The memory of a ring that another thread overwrites while this one uses it; the sanitizer watches the heap around it. */
static uint8_t *attacked;
static size_t attacked_bytes;
static int ended;

static void *attack(void *seed) {
  uint64_t s = *(uint64_t *)seed | 1;
  while (!__atomic_load_n(&ended, __ATOMIC_RELAXED)) {
    s ^= s << 13, s ^= s >> 7, s ^= s << 17;
    static const size_t words[] = {0, 128, 256};
    /* Mostly small steps, which look true for longer. */
    uint64_t value = s % 3 == 0 ? s : s >> 58;
    size_t at = s % 5 == 0 ? (s >> 8) % (attacked_bytes / 8) * 8 : words[(s >> 20) % 3];
    __atomic_store_n((uint64_t *)(void *)(attacked + at), value, __ATOMIC_RELAXED);
  }
  return NULL;
}

static void storm(int rounds) {
  uint64_t moved = 0, corrupt = 0, entry[8];
  int ends[2];
  NEED(pipe(ends) == 0);
  for (int i = 0; i < rounds; i++) {
    uint32_t entries = 1u << draw() % 5, size = 8 * (1 + (uint32_t)(draw() % 8));
    attacked_bytes = (size_t)mooncake_ring_bytes(entries, size);
    attacked = aligned_alloc(128, attacked_bytes);
    NEED(attacked != NULL);
    memset(attacked, 0, attacked_bytes);
    mooncake_ring p, c;
    NEED(mooncake_ring_producer(&p, attacked, attacked_bytes, entries, size, ends[1]) == 0);
    NEED(mooncake_ring_consumer(&c, attacked, attacked_bytes, entries, size, ends[0]) == 0);
    uint64_t seed = draw();
    pthread_t other;
    ended = 0;
    NEED(pthread_create(&other, NULL, attack, &seed) == 0);
    int broken = 0;
    for (int step = 0; step < 2000 && broken != 3; step++) {
      int64_t space = mooncake_ring_free(&p), ready = mooncake_ring_wait(&c, -1, 0);
      NEED(space <= entries && ready <= entries);
      for (int64_t k = 0; k < space; k++) NEED(mooncake_ring_put(&p, entry, size) != MOONCAKE_RING_INVALID);
      NEED(mooncake_ring_publish(&p) != MOONCAKE_RING_INVALID);
      for (int64_t k = 0; k < ready; k++) NEED(mooncake_ring_copy(&c, (uint32_t)k, entry) == 0);
      if (ready > 0) NEED(mooncake_ring_release(&c, (uint32_t)ready) == 0);
      moved += ready > 0 ? (uint64_t)ready : 0;
      broken |= (space == MOONCAKE_RING_CORRUPT) | (ready == MOONCAKE_RING_CORRUPT) << 1;
    }
    __atomic_store_n(&ended, 1, __ATOMIC_RELAXED);
    NEED(pthread_join(other, NULL) == 0);
    corrupt += broken != 0;
    free(attacked);
  }
  NEED(moved > 0 && corrupt > 0);
  printf("%d rings, %llu entries, %llu corrupt\n", rounds, (unsigned long long)moved, (unsigned long long)corrupt);
}

/* Prints what submissions of standard input mean, and writes completions, for datapath. */
static void entries(uint32_t slots) {
  uint8_t in[MOONCAKE_SUBMISSION_SIZE];
  mooncake_submission s;
  while (fread(in, sizeof in, 1, stdin) == 1) {
    if (mooncake_submission_read(&s, in, slots) != 0) {
      puts("corrupt");
      continue;
    }
    printf("%llu %llu %llu %llu %llu %llu %llu %u %u %u\n", (unsigned long long)s.tag, (unsigned long long)s.region,
           (unsigned long long)s.local, (unsigned long long)s.length, (unsigned long long)s.remote, (unsigned long long)s.offset,
           (unsigned long long)s.limit, s.rail, s.kind, s.place);
  }
}

static void completion(char **args) {
  uint8_t out[MOONCAKE_COMPLETION_SIZE] = {0};
  int n = mooncake_completion_write(out, strtoull(args[0], NULL, 10), (uint8_t)atoi(args[1]), atoi(args[2]), (uint8_t)atoi(args[3]),
                                    args[4], strlen(args[4]));
  if (n < 0) exit(CORRUPT);
  NEED(n >= 16 && n <= MOONCAKE_COMPLETION_SIZE && fwrite(out, sizeof out, 1, stdout) == 1);
}

int main(int argc, char **argv) {
  NEED(argc > 1);
  signal(SIGPIPE, SIG_IGN);
  random_state = 88172645463325252ull;
  if (strcmp(argv[1], "echo") == 0 && argc == 5) {
    random_state ^= strtoull(argv[4], NULL, 10);
    echo((uint32_t)atoi(argv[2]), (uint32_t)atoi(argv[3]));
  } else if (strcmp(argv[1], "rules") == 0) {
    arguments();
    wrap();
  } else if (strcmp(argv[1], "storm") == 0 && argc == 4) {
    random_state ^= strtoull(argv[3], NULL, 10);
    storm(atoi(argv[2]));
  } else if (strcmp(argv[1], "entries") == 0 && argc == 3) {
    entries((uint32_t)atoi(argv[2]));
  } else if (strcmp(argv[1], "completion") == 0 && argc == 7) {
    completion(argv + 2);
  } else {
    NEED(!"known arguments");
  }
  return 0;
}
