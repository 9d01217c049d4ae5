/*
 * Rings in shared memory, for transports of Mooncake that are not written in Go.
 *
 * A host and a transport that runs as a process of its own share two rings for each path: the host writes submissions into one,
 * and the transport writes completions into the other. sdk/x/shm has the same rings in Go (ring.go, bell.go, memory.go), and
 * sdk/transport/transportwire/internal/datapath the entries. docs/plugins/ring.md explains how they are used.
 *
 * Layout, version 1. Numbers are in the byte order of the machine. A ring begins at an address that is a multiple of 128.
 *
 *   offset  size
 *        0     8  tail: how many entries the producer has published; only the producer writes it
 *      128     8  head: how many entries the consumer has taken; only the consumer writes it
 *      256     4  waiting: 1 while the consumer sleeps or is about to, then 0
 *      384   n*s  the entries: entry i is at 384 + (i mod n) * s
 *
 * tail and head count since the start and wrap around at 2^64. A ring has mooncake_ring_bytes(n, s) bytes, a multiple of 128.
 *
 * Memory order. The producer writes entries, then tail, then reads waiting. The consumer writes waiting, then reads tail, then
 * reads entries. The accesses of tail, head and waiting are sequentially consistent: with weaker ones the producer could miss
 * the 1 and the consumer the tail, and the consumer would sleep for ever.
 *
 * Bells. A producer that changes waiting from 1 to 0 writes 8 bytes to a pipe, and the consumer sleeps in poll(2) on the other
 * end. A full pipe is no error: the consumer has been woken. The word is no futex, because a consumer in Go sleeps in its poller.
 *
 * Trust. The other process may write anything at any time. Each end keeps its own indices outside of the shared memory, reads
 * each word of the other side once, and returns MOONCAKE_RING_CORRUPT for an index that cannot be right, from then on always.
 * No call reads or writes outside of the ring, whatever the shared memory holds. An entry is copied before it is checked.
 *
 * Concurrency. One thread at a time uses an end. The two ends of a ring need no lock between them.
 *
 * Errors are negative numbers; mooncake_ring_error describes them. No function allocates memory. Programs ignore SIGPIPE.
 */
#ifndef MOONCAKE_RING_H
#define MOONCAKE_RING_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of the layout and of the functions. A change that breaks a caller raises it. */
#define MOONCAKE_RING_VERSION 1

#define MOONCAKE_RING_MAX_ENTRIES 65536
#define MOONCAKE_RING_MAX_ENTRY 4096

/* Errors. */
#define MOONCAKE_RING_INVALID (-1) /* An argument is wrong, and nothing happened. */
#define MOONCAKE_RING_CORRUPT (-2) /* The other process wrote what cannot be right. The ring can no longer be used. */
#define MOONCAKE_RING_FULL (-3)    /* There is no free entry. */
#define MOONCAKE_RING_CLOSED (-4)  /* The other end of the bell is closed. */
#define MOONCAKE_RING_SYSTEM (-5)  /* A system call failed: see errno. */

/* Describes an error. The text is a constant. */
const char *mooncake_ring_error(int64_t error);

/* The size of a ring in bytes, or MOONCAKE_RING_INVALID if no ring can have this layout: entries is a power of two up to
 * MOONCAKE_RING_MAX_ENTRIES, entry_size a multiple of 8 up to MOONCAKE_RING_MAX_ENTRY. */
int64_t mooncake_ring_bytes(uint32_t entries, uint32_t entry_size);

/* Maps the first `bytes` of a memory file, readable and writable. The caller still owns fd and may close it, and unmaps with
 * mooncake_ring_unmap. A file that can shrink is sealed against it, or refused (INVALID): SIGBUS would end this process. */
int mooncake_ring_map(int fd, size_t bytes, void **memory);
int mooncake_ring_unmap(void *memory, size_t bytes);

/* One end of a ring. The caller keeps it where the other process cannot write, and does not use the fields. */
typedef struct {
  uint8_t *memory;
  uint64_t next;      /* The entry to write or to read next. */
  uint64_t published; /* A producer's: what the other side sees. */
  uint64_t theirs;    /* The last index of the other side. */
  uint32_t entries;
  uint32_t entry_size;
  int32_t bell;
  uint8_t consumer;
  uint8_t broken;
} mooncake_ring;

/* Makes the writing or the reading end of a ring. `memory` has at least mooncake_ring_bytes bytes, which were zero when the
 * first of the two ends was made. `bell` is the end of the pipe for this end: a producer writes to it, a consumer reads from it.
 * The caller owns it and closes it after the last call. It becomes non-blocking and is closed by exec. */
int mooncake_ring_producer(mooncake_ring *ring, void *memory, size_t bytes, uint32_t entries, uint32_t entry_size, int bell);
int mooncake_ring_consumer(mooncake_ring *ring, void *memory, size_t bytes, uint32_t entries, uint32_t entry_size, int bell);

/* The producer's end. */

/* How many entries can be put, or CORRUPT. */
int64_t mooncake_ring_free(mooncake_ring *ring);
/* Writes an entry, which the other side sees after publish. If it is shorter than an entry, the other bytes keep their old
 * values. FULL if no entry is free. */
int mooncake_ring_put(mooncake_ring *ring, const void *entry, size_t bytes);
/* Shows the entries that were put to the other side, and rings the bell if it sleeps. CLOSED or SYSTEM concern the bell; the
 * entries are published. */
int mooncake_ring_publish(mooncake_ring *ring);

/* The consumer's end. */

/* How many entries can be read, or CORRUPT. */
int64_t mooncake_ring_ready(mooncake_ring *ring);
/* Copies the i-th entry that can be read, counted from 0, to `entry`, which has space for one. INVALID if the last ready counted
 * fewer. */
int mooncake_ring_copy(mooncake_ring *ring, uint32_t i, void *entry);
/* Gives the first n entries back to the producer. INVALID if the last ready counted fewer. */
int mooncake_ring_release(mooncake_ring *ring, uint32_t n);
/* Waits for an entry and returns how many can be read. 0 says that the time is over, that the bell rang for no entry, or that
 * `wake` can be read: a descriptor with which other threads of this process end the wait, -1 for none. It reads nothing from
 * `wake`. `timeout` is in milliseconds, -1 for none. CORRUPT, CLOSED or SYSTEM. */
int64_t mooncake_ring_wait(mooncake_ring *ring, int wake, int timeout);

/* For an event loop instead of wait: arm, and if it returns 0, wait until the bell can be read; then disarm, which also
 * takes the rings from the bell. arm returns how many entries can be read, or CORRUPT; disarm returns 0, CLOSED or SYSTEM. */
int64_t mooncake_ring_arm(mooncake_ring *ring);
int mooncake_ring_disarm(mooncake_ring *ring);

/* The entries of a path. */

#define MOONCAKE_SUBMISSION_SIZE 64
#define MOONCAKE_COMPLETION_SIZE 256
#define MOONCAKE_COMPLETION_TEXT 240

/* Where the local memory of an operation is. */
#define MOONCAKE_IN_REGION 0 /* At `local` in the region `region`. */
#define MOONCAKE_IN_STAGE 1  /* At `local` in the stage. */
#define MOONCAKE_IN_HOST 2   /* As in the stage, and the transport copies from or to the address `region` of the host. */

#define MOONCAKE_READ 1
#define MOONCAKE_WRITE 2

/* An operation that the host asks for. */
typedef struct {
  uint64_t tag; /* Names it in the completion; the lower half is below the number of slots. */
  uint64_t region;
  uint64_t local;
  uint64_t length; /* In bytes, at most 2^63-1. */
  uint64_t remote;
  uint64_t offset;
  uint64_t limit; /* Nanoseconds until the deadline, from when the entry is read; at least 1, at most 2^63-1. */
  uint16_t rail;
  uint8_t kind;
  uint8_t place;
} mooncake_submission;

/* Reads a copy of an entry, of MOONCAKE_SUBMISSION_SIZE bytes. CORRUPT if it is none that a host writes for a path of `slots`. */
int mooncake_submission_read(mooncake_submission *s, const void *entry, uint32_t slots);

#define MOONCAKE_OK 1
#define MOONCAKE_FAILED 2
#define MOONCAKE_QUARANTINED 3

/* Writes a completion to `entry`, which has MOONCAKE_COMPLETION_SIZE bytes, and returns how many bytes of it to put. `code`
 * and `error_class` are those of sdk/errs, 0 for OK; `code` is below 0 otherwise. `text` is UTF-8, and is cut after
 * MOONCAKE_COMPLETION_TEXT bytes, between two characters. INVALID if the host would end the process for it. */
int mooncake_completion_write(void *entry, uint64_t tag, uint8_t status, int32_t code, uint8_t error_class, const char *text,
                              size_t text_bytes);

#ifdef __cplusplus
}
#endif

#endif
