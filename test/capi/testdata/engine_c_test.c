/* A program that uses transfer_engine_c.h as NIXL's plugin, the Rust crate and the P2P store
 * do: two processes, contents compared byte by byte. Argument: the URL of a metadata service
 * over HTTP. */
#define _GNU_SOURCE
#include "check.h"
#include "engine_peer.h"
#include "engine_threads.h"

/* What is no engine is an error, and the process goes on. */
static void test_no_engine(void) {
  transfer_engine_t gone = discovered();
  destroyTransferEngine(gone);
  transfer_engine_t none[] = {NULL, gone, (void *)none, (void *)(uintptr_t)16};
  for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
    transfer_engine_t e = none[i];
    char buf[64];
    int n = 7;
    size_t count = 1;
    void *p = buf;
    nic_load_stat_t load;
    transfer_status_t s;
    transfer_request_t r = {OPCODE_READ, buf, 0, 1, 1};
    buffer_entry_t b = {buf, sizeof buf};
    notify_msg_t m = {"a", "b"};
    WANT(discoverTopology(e) < 0 && getLocalIpAndPort(e, buf, sizeof buf) < 0 && uninstallTransport(e, "tcp") < 0);
    WANT(installTransport(e, "tcp", NULL) == NULL && openSegment(e, "a") < 0 && openSegmentNoCache(e, "a") < 0);
    WANT(closeSegment(e, 1) < 0 && removeLocalSegment(e, "a") < 0 && syncSegmentCache(e) < 0 && warmupEfaSegment(e, "a") < 0);
    WANT(registerLocalMemory(e, buf, 1, "*", 1) < 0 && unregisterLocalMemory(e, buf) < 0);
    WANT(registerLocalMemoryBatch(e, &b, 1, "*") < 0 && unregisterLocalMemoryBatch(e, &p, 1) < 0);
    WANT(allocateBatchID(e, 1) == INVALID_BATCH && submitTransfer(e, 1, &r, 1) == 1 && submitTransferWithNotify(e, 1, &r, 1, m) == 1);
    WANT(getTransferStatus(e, 1, 0, &s) == 1 && freeBatchID(e, 1) == 1);
    WANT(getNotifsFromEngine(e, &n) == NULL && n == 0 && genNotifyInEngine(e, 0, m) < 0);
    WANT(getNicLoadStats(e, &load, &count) < 0 && showLinks(e, buf, sizeof buf, 0) < 0);
    enableGracefulShutdown(e);
    destroyTransferEngine(e);
  }
  WANT(createTransferEngine("", "127.0.0.1", "", 0, 1) == NULL && createTransferEngine(P2P, "", "", 0, 0) == NULL);
  WANT(createTransferEngine("ftp://h/m", "127.0.0.1", "", 0, 1) == NULL && createTransferEngine(NULL, NULL, NULL, 0, 1) == NULL);
  IS(freeNotifsMsgBuf(NULL, 0), 0);
}

static void test_memory(void) {
  static char memory[4][4096];
  transfer_engine_t e = discovered();
  IS(registerLocalMemory(e, memory[0], sizeof memory[0], "*", 1), 0);
  IS(registerLocalMemory(e, memory[0], sizeof memory[0], "*", 1), -7);
  IS(registerLocalMemory(e, memory[0] + 100, 10, "*", 1), -7);
  IS(registerLocalMemory(e, memory[1], 0, "*", 1), -1);
  IS(registerLocalMemory(e, NULL, 8, "*", 1), -1);
  buffer_entry_t bad[] = {{memory[1], 4096}, {memory[2], 4096}, {memory[0], 1}}, good[] = {{memory[1], 4096}, {memory[2], 4096}};
  IS(registerLocalMemoryBatch(e, bad, 3, "cpu:0"), -7);
  IS(registerLocalMemoryBatch(e, good, 2, "cpu:0"), 0);
  void *unknown[] = {memory[1], memory[3]}, *known[] = {memory[2], memory[1]};
  IS(unregisterLocalMemoryBatch(e, unknown, 2), -3);
  IS(unregisterLocalMemoryBatch(e, known, 2), 0);
  IS(registerLocalMemoryBatch(e, NULL, 1, "*"), -1);
  IS(registerLocalMemoryBatch(e, NULL, 0, "*"), 0);
  IS(registerLocalMemoryBatch(e, good, SIZE_MAX, "*"), -1);
  IS(unregisterLocalMemoryBatch(e, NULL, 1), -1);
  IS(unregisterLocalMemoryBatch(e, known, SIZE_MAX), -1);
  IS(unregisterLocalMemory(e, memory[0]), 0);
  IS(unregisterLocalMemory(e, memory[0]), -3);
  destroyTransferEngine(e);
}

/* Transports one by one, also when peers know the engine already. */
static void test_install(void) {
  static unsigned char memory[1 << 16], local[1 << 16];
  transfer_engine_t far = createTransferEngine(P2P, "127.0.0.1", "127.0.0.1", 12345, 0), near = discovered();
  char name[64], same[64];
  char *matrix[] = {"{\"cpu:0\":[[],[]]}"}, *nonsense[] = {"{"};
  WANT(far != NULL);
  WANT(installTransport(far, "nvlink", NULL) == NULL && uninstallTransport(far, "nvlink") < 0 && installTransport(far, "", NULL) == NULL);
  if (access("/sys/class/infiniband", F_OK) != 0) WANT(installTransport(far, "rdma", NULL) == NULL);
  WANT(installTransport(far, "tcp", (void **)matrix) != NULL && installTransport(far, "tcp", NULL) != NULL);
  IS(registerLocalMemory(far, memory, sizeof memory, "cpu:0", 1), 0);
  IS(getLocalIpAndPort(far, name, sizeof name), 0);
  segment_id_t id = openSegment(near, name);
  WANT(id > 0);
  fill(local, sizeof local, 1);
  IS(move(near, OPCODE_WRITE, local, id, (uintptr_t)memory, sizeof memory), 0);
  IS(wrong(memory, sizeof memory, 1), 0);

  batch_id_t batch = allocateBatchID(far, 1);
  WANT(installTransport(far, "shm", NULL) == NULL); /* not while there are batches */
  IS(freeBatchID(far, batch), 0);
  WANT(installTransport(far, "tcp", (void **)nonsense) == NULL);
  WANT(installTransport(far, "shm", NULL) != NULL);
  IS(getLocalIpAndPort(far, same, sizeof same), 0);
  IS(strcmp(name, same), 0);
  fill(local, sizeof local, 2);
  IS(openSegmentNoCache(near, name), id);
  IS(move(near, OPCODE_WRITE, local, id, (uintptr_t)memory, sizeof memory), 0);
  IS(wrong(memory, sizeof memory, 2), 0);
  IS(uninstallTransport(far, "shm"), 0);
  IS(discoverTopology(far), 0);
  IS(getLocalIpAndPort(far, same, 5), 0);
  IS(strcmp(same, "127."), 0);
  destroyTransferEngine(near);
  destroyTransferEngine(far);
}

static void test_transfer(void) {
  static unsigned char local[1 << 20];
  struct peer p = start_peer(P2P, "127.0.0.1", "");
  transfer_engine_t e = discovered();
  char slash[300], question[64];
  IS(registerLocalMemory(e, local, sizeof local, "*", 1), 0);
  segment_id_t id = openSegment(e, p.name);
  snprintf(slash, sizeof slash, "/%s", p.name);
  WANT(id > 0 && openSegment(e, slash) == id && openSegmentNoCache(e, p.name) == id && closeSegment(e, id) == 0);
  WANT(openSegment(e, "") < 0 && openSegment(e, NULL) < 0 && openSegment(e, "127.0.0.1:1") < 0);

  enum { N = 16, SIZE = sizeof local / N };
  transfer_request_t r[N + 1];
  fill(local, sizeof local, 3);
  for (size_t i = 0; i < N; i++) r[i] = (transfer_request_t){OPCODE_WRITE, local + i * SIZE, id, p.addr + i * SIZE, SIZE};
  batch_id_t batch = allocateBatchID(e, N);
  WANT(batch != INVALID_BATCH);
  transfer_status_t s;
  IS(getTransferStatus(e, batch, 0, &s), 1);
  r[N] = r[0];
  IS(submitTransfer(e, batch, r, N + 1), 2); /* none of them */
  IS(submitTransfer(e, batch, r, 4), 0);
  IS(submitTransferWithNotify(e, batch, r + 4, N - 4, (notify_msg_t){"agent", "all there"}), 0);
  IS(submitTransfer(e, batch, r, 1), 2);
  int rc = freeBatchID(e, batch);
  WANT(rc == 4 || rc == 0);
  if (rc == 4) {
    IS(completed(e, batch, N), N);
    IS(getTransferStatus(e, batch, N, &s), 1);
    IS(freeBatchID(e, batch), 0);
  }
  IS(freeBatchID(e, batch), 1);
  IS(getTransferStatus(e, batch, 0, &s), 1);
  IS(getTransferStatus(e, INVALID_BATCH, 0, &s), 1);
  snprintf(question, sizeof question, "wrong 0 %zu 3", sizeof local);
  IS(strcmp(ask(&p, question), "0"), 0);
  const char *got;
  int tries = 0;
  while (*(got = ask(&p, "notifs")) == 0 && tries++ < 10000) usleep(1000);
  IS(strcmp(got, "agent=all there;"), 0);

  snprintf(question, sizeof question, "fill 5 %zu 9", sizeof local);
  ask(&p, question);
  IS(move(e, OPCODE_READ, local, id, p.addr + 5, sizeof local), 0);
  IS(wrong(local, sizeof local, 9), 0);
  IS(move(e, OPCODE_WRITE, local, id, p.addr + PEER_SIZE - 1, 2), -1); /* past the end */
  IS(move(e, OPCODE_WRITE, local, id, 4096, 2), -1);
  IS(move(e, 2, local, id, p.addr, 2), 1);
  IS(move(e, OPCODE_WRITE, local, id + 1, p.addr, 2), 1);
  IS(move(e, OPCODE_WRITE, local, -1, p.addr, 2), 1);
  IS(move(e, OPCODE_WRITE, NULL, id, p.addr, 2), 1);
  IS(move(e, OPCODE_WRITE, local, LOCAL_SEGMENT, (uintptr_t)local + 8, 8), 0);
  WANT(allocateBatchID(e, 0) == INVALID_BATCH && allocateBatchID(e, SIZE_MAX) == INVALID_BATCH);

  IS(genNotifyInEngine(e, (uint64_t)id, (notify_msg_t){"a", "b"}), 0);
  IS(strcmp(ask(&p, "notifs"), "a=b;"), 0);
  WANT(genNotifyInEngine(e, UINT64_MAX, (notify_msg_t){"a", "b"}) < 0 && genNotifyInEngine(e, 99, (notify_msg_t){"a", "b"}) < 0);
  IS(syncSegmentCache(e), 0);
  IS(removeLocalSegment(e, p.name), 0);
  WANT(removeLocalSegment(e, p.name) < 0 && openSegment(e, p.name) > id);
  IS(move(e, OPCODE_READ, local, id, p.addr, 64), 0);

  static char text[1 << 16];
  nic_load_stat_t load[4];
  size_t n = 4;
  IS(getNicLoadStats(e, load, &n), 0);
  WANT(n >= 1 && strlen(load[0].device_name) > 0);
  n = 0;
  IS(getNicLoadStats(e, load, &n), 0);
  WANT(n >= 1);
  IS(showLinks(e, text, sizeof text, 1), 0);
  WANT(text[0] == '{' && strstr(text, "\"local_nics\"") && strstr(text, p.name));
  IS(showLinks(e, text, sizeof text, 0), 0);
  WANT(strstr(text, "Local NICs") != NULL);
  WANT(showLinks(e, text, 8, 0) == 0 && strlen(text) == 7 && showLinks(e, NULL, 8, 0) < 0 && showLinks(e, text, 0, 0) < 0);
  destroyTransferEngine(e);
  IS(end_peer(&p, 0), 0);
}

/* A peer that is killed fails what goes to it; under the same name it works again. */
static void test_restart(void) {
  static unsigned char local[4096];
  struct peer p = start_peer(P2P, "127.0.0.1", "");
  transfer_engine_t e = discovered();
  segment_id_t id = openSegment(e, p.name);
  IS(move(e, OPCODE_WRITE, local, id, p.addr, sizeof local), 0);
  WANT(WIFSIGNALED(end_peer(&p, SIGKILL)));
  for (int i = 0; i < 4; i++) WANT(move(e, OPCODE_WRITE, local, id, p.addr, sizeof local) != 0);
  WANT(openSegmentNoCache(e, p.name) < 0);
  setenv("MC_LEGACY_RPC_PORT_BINDING", "1", 1);
  struct peer back = start_peer(P2P, p.name, "");
  unsetenv("MC_LEGACY_RPC_PORT_BINDING");
  IS(strcmp(back.name, p.name), 0);
  fill(local, sizeof local, 5);
  IS(move(e, OPCODE_WRITE, local, id, back.addr, sizeof local), 0);
  IS(strcmp(ask(&back, "wrong 0 4096 5"), "0"), 0);
  IS(openSegmentNoCache(e, p.name), id);
  destroyTransferEngine(e);
  IS(end_peer(&back, 0), 0);
}

/* SIGTERM takes back what the process published, and ends it all the same. */
static void test_graceful(const char *metadata) {
  struct peer p = start_peer(metadata, "127.0.0.1:28101", "graceful");
  transfer_engine_t e = createTransferEngine(metadata, "127.0.0.1:28102", "", 0, 1);
  WANT(e != NULL && openSegment(e, p.name) > 0 && openSegmentNoCache(e, p.name) > 0);
  int status = end_peer(&p, SIGTERM);
  WANT(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
  WANT(openSegmentNoCache(e, p.name) < 0);
  destroyTransferEngine(e);
}

int main(int argc, char **argv) {
  if (argc == 5 && strcmp(argv[1], "serve") == 0) return serve(argv[2], argv[3], argv[4][0] != 0);
  WANT(argc == 2);
  WANT(sizeof(transfer_request_t) == 40 && sizeof(transfer_status_t) == 16 && sizeof(nic_load_stat_t) == 80);
  test_no_engine();
  test_memory();
  test_install();
  test_transfer();
  test_restart();
  test_threads();
  test_graceful(argv[1]);
  return 0;
}
