/* See mooncake_ring.h. */
#define _GNU_SOURCE
#include "mooncake_ring.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TAIL = 0, HEAD = 128, WAITING = 256, HEADER = 384, LINE = 128 };

const char *mooncake_ring_error(int64_t error) {
  switch (error) {
    case MOONCAKE_RING_INVALID:
      return "an argument of the ring is invalid";
    case MOONCAKE_RING_CORRUPT:
      return "the ring is corrupt: the other process wrote what cannot be right";
    case MOONCAKE_RING_FULL:
      return "the ring has no free entry";
    case MOONCAKE_RING_CLOSED:
      return "the other end of the bell is closed";
    case MOONCAKE_RING_SYSTEM:
      return "a system call failed";
    default:
      return "no error";
  }
}

int64_t mooncake_ring_bytes(uint32_t entries, uint32_t entry_size) {
  if (entries < 1 || entries > MOONCAKE_RING_MAX_ENTRIES || (entries & (entries - 1)) != 0 || entry_size < 8 ||
      entry_size > MOONCAKE_RING_MAX_ENTRY || entry_size % 8 != 0)
    return MOONCAKE_RING_INVALID;
  return ((int64_t)HEADER + (int64_t)entries * entry_size + LINE - 1) / LINE * LINE;
}

/* Seals a memory file against shrinking, and against further seals, which could keep this process from writing. */
static int seal(int fd) {
  int seals = fcntl(fd, F_GET_SEALS);
  if (seals < 0) return MOONCAKE_RING_INVALID;
  if ((seals & F_SEAL_SHRINK) == 0 || (seals & F_SEAL_SEAL) == 0) {
    if (fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_SEAL) != 0 && (seals & F_SEAL_SHRINK) == 0) return MOONCAKE_RING_INVALID;
  }
  return 0;
}

int mooncake_ring_map(int fd, size_t bytes, void **memory) {
  struct stat st;
  if (memory == NULL || bytes == 0 || seal(fd) != 0) return MOONCAKE_RING_INVALID;
  if (fstat(fd, &st) != 0) return MOONCAKE_RING_SYSTEM;
  if (st.st_size < 0 || (uint64_t)st.st_size < bytes) return MOONCAKE_RING_INVALID;
  void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (at == MAP_FAILED) return MOONCAKE_RING_SYSTEM;
  *memory = at;
  return 0;
}

int mooncake_ring_unmap(void *memory, size_t bytes) {
  return munmap(memory, bytes) == 0 ? 0 : MOONCAKE_RING_SYSTEM;
}

static int make(mooncake_ring *ring, void *memory, size_t bytes, uint32_t entries, uint32_t entry_size, int bell, int consumer) {
  int64_t need = mooncake_ring_bytes(entries, entry_size);
  if (ring == NULL || memory == NULL || need < 0 || bytes < (uint64_t)need || (uintptr_t)memory % LINE != 0)
    return MOONCAKE_RING_INVALID;
  int flags = fcntl(bell, F_GETFL);
  if (flags < 0) return MOONCAKE_RING_INVALID;
  if (fcntl(bell, F_SETFL, flags | O_NONBLOCK) != 0 || fcntl(bell, F_SETFD, FD_CLOEXEC) != 0) return MOONCAKE_RING_SYSTEM;
  *ring = (mooncake_ring){.memory = memory, .entries = entries, .entry_size = entry_size, .bell = bell,
                          .consumer = (uint8_t)consumer};
  return 0;
}

int mooncake_ring_producer(mooncake_ring *ring, void *memory, size_t bytes, uint32_t entries, uint32_t entry_size, int bell) {
  return make(ring, memory, bytes, entries, entry_size, bell, 0);
}

int mooncake_ring_consumer(mooncake_ring *ring, void *memory, size_t bytes, uint32_t entries, uint32_t entry_size, int bell) {
  return make(ring, memory, bytes, entries, entry_size, bell, 1);
}

/* The words of the header. The ring is aligned to 128 bytes, so that they are aligned too. */
static uint64_t load(const mooncake_ring *ring, size_t offset) {
  return __atomic_load_n((uint64_t *)(void *)(ring->memory + offset), __ATOMIC_SEQ_CST);
}

static void store(mooncake_ring *ring, size_t offset, uint64_t value) {
  __atomic_store_n((uint64_t *)(void *)(ring->memory + offset), value, __ATOMIC_SEQ_CST);
}

static uint32_t *waiting(const mooncake_ring *ring) { return (uint32_t *)(void *)(ring->memory + WAITING); }

static uint8_t *slot(const mooncake_ring *ring, uint64_t index) {
  return ring->memory + HEADER + (size_t)(index & (ring->entries - 1)) * ring->entry_size;
}

/* Ends the use of a ring for good. */
static int64_t corrupt(mooncake_ring *ring) {
  ring->broken = 1;
  return MOONCAKE_RING_CORRUPT;
}

/* The producer's end. */

int64_t mooncake_ring_free(mooncake_ring *ring) {
  if (ring->consumer) return MOONCAKE_RING_INVALID;
  if (ring->broken) return MOONCAKE_RING_CORRUPT;
  uint64_t head = load(ring, HEAD);
  if (head - ring->theirs > ring->published - ring->theirs) return corrupt(ring);
  ring->theirs = head;
  return (int64_t)(ring->entries - (ring->next - head));
}

int mooncake_ring_put(mooncake_ring *ring, const void *entry, size_t bytes) {
  if (ring->consumer || bytes > ring->entry_size || (entry == NULL && bytes > 0)) return MOONCAKE_RING_INVALID;
  if (ring->broken) return MOONCAKE_RING_CORRUPT;
  if (ring->next - ring->theirs >= ring->entries) {
    int64_t free = mooncake_ring_free(ring);
    if (free <= 0) return free < 0 ? (int)free : MOONCAKE_RING_FULL;
  }
  if (bytes > 0) memcpy(slot(ring, ring->next), entry, bytes);
  ring->next++;
  return 0;
}

static int strike(int bell) {
  const uint64_t one = 1;
  for (;;) {
    if (write(bell, &one, sizeof one) >= 0 || errno == EAGAIN) return 0;
    if (errno == EPIPE) return MOONCAKE_RING_CLOSED;
    if (errno != EINTR) return MOONCAKE_RING_SYSTEM;
  }
}

int mooncake_ring_publish(mooncake_ring *ring) {
  if (ring->consumer) return MOONCAKE_RING_INVALID;
  if (ring->broken) return MOONCAKE_RING_CORRUPT;
  if (ring->next == ring->published) return 0;
  ring->published = ring->next;
  store(ring, TAIL, ring->next);
  uint32_t sleeps = 1;
  if (__atomic_load_n(waiting(ring), __ATOMIC_SEQ_CST) == 0) return 0;
  if (!__atomic_compare_exchange_n(waiting(ring), &sleeps, 0, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) return 0;
  return strike(ring->bell);
}

/* The consumer's end. */

int64_t mooncake_ring_ready(mooncake_ring *ring) {
  if (!ring->consumer) return MOONCAKE_RING_INVALID;
  if (ring->broken) return MOONCAKE_RING_CORRUPT;
  uint64_t tail = load(ring, TAIL), ready = tail - ring->next;
  if (ready > ring->entries || ready < ring->theirs - ring->next) return corrupt(ring);
  ring->theirs = tail;
  return (int64_t)ready;
}

int mooncake_ring_copy(mooncake_ring *ring, uint32_t i, void *entry) {
  if (!ring->consumer || entry == NULL || i >= ring->theirs - ring->next) return MOONCAKE_RING_INVALID;
  if (ring->broken) return MOONCAKE_RING_CORRUPT;
  /* By atomic words: a compiler that sees the caller too cannot read the shared memory again instead of the copy. */
  const uint64_t *from = (const uint64_t *)(const void *)slot(ring, ring->next + i);
  uint8_t *to = entry;
  for (size_t at = 0; at < ring->entry_size; at += sizeof(uint64_t)) {
    uint64_t word = __atomic_load_n(from + at / sizeof(uint64_t), __ATOMIC_RELAXED);
    memcpy(to + at, &word, sizeof word);
  }
  return 0;
}

int mooncake_ring_release(mooncake_ring *ring, uint32_t n) {
  if (!ring->consumer || n > ring->theirs - ring->next) return MOONCAKE_RING_INVALID;
  if (ring->broken) return MOONCAKE_RING_CORRUPT;
  ring->next += n;
  store(ring, HEAD, ring->next);
  return 0;
}

int64_t mooncake_ring_arm(mooncake_ring *ring) {
  if (!ring->consumer) return MOONCAKE_RING_INVALID;
  __atomic_store_n(waiting(ring), 1, __ATOMIC_SEQ_CST);
  /* What the producer published before it could see the 1 is seen here. */
  return mooncake_ring_ready(ring);
}

int mooncake_ring_disarm(mooncake_ring *ring) {
  if (!ring->consumer) return MOONCAKE_RING_INVALID;
  __atomic_store_n(waiting(ring), 0, __ATOMIC_SEQ_CST);
  /* One read is enough: what stays wakes the next wait early. */
  uint8_t rings[64];
  for (;;) {
    ssize_t n = read(ring->bell, rings, sizeof rings);
    if (n > 0) return 0;
    if (n == 0) return MOONCAKE_RING_CLOSED;
    if (errno == EAGAIN) return 0;
    if (errno != EINTR) return MOONCAKE_RING_SYSTEM;
  }
}

int64_t mooncake_ring_wait(mooncake_ring *ring, int wake, int timeout) {
  if (!ring->consumer) return MOONCAKE_RING_INVALID;
  int64_t ready = mooncake_ring_ready(ring);
  if (ready != 0) return ready;
  ready = mooncake_ring_arm(ring);
  int polled = 0;
  if (ready == 0) {
    struct pollfd fds[2] = {{.fd = ring->bell, .events = POLLIN}, {.fd = wake, .events = POLLIN}};
    polled = poll(fds, 2, timeout); /* poll ignores a descriptor below 0. */
    if (polled < 0 && errno == EINTR) polled = 0;
  }
  int error = errno; /* That of poll. */
  int bell = mooncake_ring_disarm(ring);
  if (polled < 0) {
    errno = error;
    return MOONCAKE_RING_SYSTEM;
  }
  if (ready < 0) return ready;
  ready = mooncake_ring_ready(ring);
  return ready == 0 && bell < 0 ? bell : ready; /* The last entries come before the end of the bell. */
}

/* The entries of a path. */

static uint64_t word64(const uint8_t *b) {
  uint64_t v;
  memcpy(&v, b, sizeof v);
  return v;
}

int mooncake_submission_read(mooncake_submission *s, const void *entry, uint32_t slots) {
  const uint8_t *b = entry;
  if (s == NULL || b == NULL) return MOONCAKE_RING_INVALID;
  uint32_t mark;
  memcpy(&mark, b + 60, sizeof mark);
  *s = (mooncake_submission){.tag = word64(b), .region = word64(b + 8), .local = word64(b + 16), .length = word64(b + 24),
                             .remote = word64(b + 32), .offset = word64(b + 40), .limit = word64(b + 48),
                             .kind = b[58], .place = b[59]};
  memcpy(&s->rail, b + 56, sizeof s->rail);
  int known = (s->kind == MOONCAKE_READ || s->kind == MOONCAKE_WRITE) && s->place <= MOONCAKE_IN_HOST && mark == 0;
  if (!known || s->length > INT64_MAX || s->limit < 1 || s->limit > INT64_MAX || (uint32_t)s->tag >= slots)
    return MOONCAKE_RING_CORRUPT;
  return 0;
}

/* The length of the longest part of a text that fits and does not end inside a character. */
static size_t cut(const char *text, size_t bytes) {
  if (bytes <= MOONCAKE_COMPLETION_TEXT) return bytes;
  size_t n = MOONCAKE_COMPLETION_TEXT;
  while (n > 0 && ((uint8_t)text[n] & 0xc0) == 0x80) n--;
  return n;
}

int mooncake_completion_write(void *entry, uint64_t tag, uint8_t status, int32_t code, uint8_t error_class, const char *text,
                              size_t text_bytes) {
  uint8_t *b = entry;
  int ok = status == MOONCAKE_OK && code == 0 && error_class == 0 && text_bytes == 0;
  int failed = (status == MOONCAKE_FAILED || status == MOONCAKE_QUARANTINED) && code < 0 && error_class <= 4;
  if (b == NULL || (!ok && !failed) || (text == NULL && text_bytes > 0)) return MOONCAKE_RING_INVALID;
  uint16_t n = text == NULL ? 0 : (uint16_t)cut(text, text_bytes);
  memcpy(b, &tag, sizeof tag);
  b[8] = status;
  b[9] = error_class;
  memcpy(b + 10, &n, sizeof n);
  memcpy(b + 12, &code, sizeof code);
  if (n > 0) memcpy(b + 16, text, n);
  return 16 + n;
}
