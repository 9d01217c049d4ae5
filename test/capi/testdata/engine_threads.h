/* How engine_c_test.c moves bytes, and eight threads that do so at once. */
#ifndef CAPI_ENGINE_THREADS_H
#define CAPI_ENGINE_THREADS_H

#include <pthread.h>

#include "engine_peer.h"

#define P2P "P2PHANDSHAKE"

static transfer_engine_t discovered(void) {
  transfer_engine_t e = createTransferEngine(P2P, "127.0.0.1", "", 0, 1);
  WANT(e != NULL);
  return e;
}

/* Waits for all tasks of a batch and returns how many were completed. */
static size_t completed(transfer_engine_t e, batch_id_t batch, size_t n) {
  size_t good = 0;
  for (size_t i = 0; i < n; i++) {
    transfer_status_t s = {-1, 0};
    do {
      IS(getTransferStatus(e, batch, i, &s), 0);
      WANT(s.status == STATUS_WAITING || s.status == STATUS_COMPLETED || s.status == STATUS_FAILED);
      usleep(200);
    } while (s.status == STATUS_WAITING);
    good += s.status == STATUS_COMPLETED;
  }
  return good;
}

/* Moves one range and returns 0 when it was completed. */
static int move(transfer_engine_t e, int opcode, void *source, segment_id_t to, uint64_t addr, size_t size) {
  batch_id_t batch = allocateBatchID(e, 1);
  WANT(batch != INVALID_BATCH && batch != 0);
  transfer_request_t r = {opcode, source, to, addr, size};
  int rc = submitTransfer(e, batch, &r, 1);
  if (rc == 0) rc = completed(e, batch, 1) == 1 ? 0 : -1;
  IS(freeBatchID(e, batch), 0);
  return rc;
}

struct worker {
  transfer_engine_t e;
  segment_id_t id;
  uint64_t addr;
  unsigned seed;
};

static void *work(void *arg) {
  struct worker *w = arg;
  enum { SIZE = 64 << 10, PIECES = 4 };
  unsigned char *local = malloc(SIZE), *back = malloc(SIZE);
  for (unsigned round = 0; round < 40; round++) {
    fill(local, SIZE, w->seed + round);
    memset(back, 0, SIZE);
    for (int opcode = OPCODE_WRITE; opcode >= OPCODE_READ; opcode--) {
      transfer_request_t r[PIECES];
      for (size_t i = 0; i < PIECES; i++) {
        size_t at = i * (SIZE / PIECES);
        r[i] = (transfer_request_t){opcode, (opcode == OPCODE_WRITE ? local : back) + at, w->id, w->addr + at, SIZE / PIECES};
      }
      batch_id_t batch = allocateBatchID(w->e, PIECES);
      WANT(batch != INVALID_BATCH);
      IS(submitTransfer(w->e, batch, r, PIECES), 0);
      IS(completed(w->e, batch, PIECES), PIECES);
      IS(freeBatchID(w->e, batch), 0);
    }
    IS(wrong(back, SIZE, w->seed + round), 0);
  }
  free(local);
  free(back);
  return NULL;
}

static void test_threads(void) {
  enum { N = 8 };
  struct peer p = start_peer(P2P, "127.0.0.1", "");
  transfer_engine_t e = discovered();
  pthread_t threads[N];
  struct worker w[N];
  for (unsigned i = 0; i < N; i++) {
    w[i] = (struct worker){e, openSegment(e, p.name), p.addr + i * (64 << 10), i * 50};
    IS(pthread_create(&threads[i], NULL, work, &w[i]), 0);
  }
  for (int i = 0; i < N; i++) IS(pthread_join(threads[i], NULL), 0);
  destroyTransferEngine(e);
  IS(end_peer(&p, 0), 0);
}

#endif
