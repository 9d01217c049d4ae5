/* What the programs of this folder check with. */
#ifndef CAPI_CHECK_H
#define CAPI_CHECK_H

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

#define WANT(condition)                                                     \
  do {                                                                      \
    if (!(condition)) {                                                     \
      fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
      exit(1);                                                              \
    }                                                                       \
  } while (0)

/* IS wants a number, and tells which it got. */
#define IS(got, want)                                                                      \
  do {                                                                                     \
    long long g_ = (long long)(got), w_ = (long long)(want);                               \
    if (g_ != w_) {                                                                        \
      fprintf(stderr, "%s:%d: %s is %lld, want %lld\n", __FILE__, __LINE__, #got, g_, w_); \
      exit(1);                                                                             \
    }                                                                                      \
  } while (0)

/* How many descriptors are open. */
static inline int descriptors(void) {
  int n = 0;
  DIR *d = opendir("/proc/self/fd");
  WANT(d != NULL);
  while (readdir(d) != NULL) n++;
  closedir(d);
  return n;
}

/* How much memory is in use, in bytes. */
static inline long long resident(void) {
  long long pages = 0;
  FILE *f = fopen("/proc/self/statm", "r");
  WANT(f != NULL && fscanf(f, "%*s %lld", &pages) == 1);
  fclose(f);
  return pages * 4096;
}

#endif
