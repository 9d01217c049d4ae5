/* The other process of engine_c_test.c: it has memory that is open to peers, says where, and
 * answers questions from standard input, one a line, until that ends. */
#ifndef CAPI_ENGINE_PEER_H
#define CAPI_ENGINE_PEER_H

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "transfer_engine_c.h"

#define PEER_SIZE ((size_t)8 << 20)

extern char **environ;

/* Byte i of a pattern. */
static inline unsigned char byte_of(unsigned seed, size_t i) { return (unsigned char)(seed + i * 7 + (i >> 8)); }

static inline void fill(unsigned char *p, size_t n, unsigned seed) {
  for (size_t i = 0; i < n; i++) p[i] = byte_of(seed, i);
}

/* How many bytes are not those of the pattern. */
static inline size_t wrong(const unsigned char *p, size_t n, unsigned seed) {
  size_t bad = 0;
  for (size_t i = 0; i < n; i++) bad += p[i] != byte_of(seed, i);
  return bad;
}

static int serve(const char *conn, const char *name, int graceful) {
  static unsigned char memory[PEER_SIZE];
  char line[256], self[256];
  transfer_engine_t e = createTransferEngine(conn, name, "", 0, 1);
  WANT(e != NULL);
  IS(registerLocalMemory(e, memory, sizeof memory, "cpu:0", 1), 0);
  IS(getLocalIpAndPort(e, self, sizeof self), 0);
  if (graceful) enableGracefulShutdown(e);
  printf("%s %llu\n", self, (unsigned long long)(uintptr_t)memory);
  fflush(stdout);
  while (fgets(line, sizeof line, stdin) != NULL) {
    size_t offset, size;
    unsigned seed;
    int n = 0;
    if (sscanf(line, "wrong %zu %zu %u", &offset, &size, &seed) == 3) {
      printf("%zu\n", wrong(memory + offset, size, seed));
    } else if (sscanf(line, "fill %zu %zu %u", &offset, &size, &seed) == 3) {
      fill(memory + offset, size, seed);
      printf("filled\n");
    } else {
      notify_msg_t *list = getNotifsFromEngine(e, &n);
      for (int i = 0; i < n; i++) printf("%s=%s;", list[i].name, list[i].msg);
      printf("\n");
      IS(freeNotifsMsgBuf(list, n), 0);
    }
    fflush(stdout);
  }
  destroyTransferEngine(e);
  return 0;
}

/* A running peer. */
struct peer {
  pid_t pid;
  FILE *to, *from;
  char name[256];
  uint64_t addr;
};

static struct peer start_peer(const char *conn, const char *name, const char *how) {
  struct peer p = {0};
  int in[2], out[2];
  posix_spawn_file_actions_t files;
  char *argv[] = {"engine_c_test", "serve", (char *)conn, (char *)name, (char *)how, NULL};
  IS(pipe2(in, O_CLOEXEC), 0);
  IS(pipe2(out, O_CLOEXEC), 0);
  IS(posix_spawn_file_actions_init(&files), 0);
  IS(posix_spawn_file_actions_adddup2(&files, in[0], 0), 0);
  IS(posix_spawn_file_actions_adddup2(&files, out[1], 1), 0);
  IS(posix_spawn(&p.pid, "/proc/self/exe", &files, NULL, argv, environ), 0);
  posix_spawn_file_actions_destroy(&files);
  close(in[0]);
  close(out[1]);
  p.to = fdopen(in[1], "w");
  p.from = fdopen(out[0], "r");
  unsigned long long addr;
  char line[512];
  WANT(fgets(line, sizeof line, p.from) != NULL);
  IS(sscanf(line, "%255s %llu", p.name, &addr), 2);
  p.addr = addr;
  return p;
}

/* One question and its answer. */
static const char *ask(struct peer *p, const char *question) {
  static char answer[1024];
  fprintf(p->to, "%s\n", question);
  fflush(p->to);
  WANT(fgets(answer, sizeof answer, p->from) != NULL);
  answer[strcspn(answer, "\n")] = 0;
  return answer;
}

/* Ends a peer with a signal, 0 for the end of its questions, and returns how it ended. */
static int end_peer(struct peer *p, int sig) {
  int status = 0;
  if (sig == 0) fclose(p->to);
  if (sig != 0) kill(p->pid, sig);
  IS(waitpid(p->pid, &status, 0), p->pid);
  if (sig != 0) fclose(p->to);
  fclose(p->from);
  return status;
}

#endif
