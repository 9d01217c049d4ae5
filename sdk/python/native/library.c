#include "native.h"

#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum state { NOT_LOADED, LOADING, LOADED, UNUSABLE };

/* One library a process, however many interpreters: it holds a Go runtime. */
static library functions;
static atomic_int state = NOT_LOADED;
static atomic_bool left_behind;
static pthread_mutex_t loading = PTHREAD_MUTEX_INITIALIZER;
static char failure[PATH_MAX + 1024]; /* why it is UNUSABLE, written once */

static void in_child(void) {
  if (atomic_load(&state) != NOT_LOADED) atomic_store(&left_behind, true);
}

bool library_left_behind(void) {
  return atomic_load_explicit(&left_behind, memory_order_relaxed);
}

const library *library_if_loaded(void) {
  return !library_left_behind() && atomic_load(&state) == LOADED ? &functions : NULL;
}

const char *library_path(void) {
  static char path[PATH_MAX];
  if (path[0]) return path;
  Dl_info here;
  if (!dladdr((void *)(uintptr_t)library_path, &here) || !here.dli_fname) return NULL;
  const char *slash = strrchr(here.dli_fname, '/');
  int folder = slash ? (int)(slash - here.dli_fname) : 1;
  int size = snprintf(path, sizeof path, "%.*s/libmooncake.so", folder, slash ? here.dli_fname : ".");
  if (size < 0 || (size_t)size >= sizeof path) path[0] = 0;
  return path[0] ? path : NULL;
}

#define OTHER_BUILD \
  "Library and extension are of different builds. Install mooncake-transfer-engine again, or run make pydev in a checkout."

/* What to do about an error of dlopen: the first hint whose words are in it. */
static const char *hint(const char *path, const char *error) {
  static const struct {
    const char *words, *text;
  } hints[] = {
      {"static TLS", "Other libraries took the memory it needs for thread-local data. Start Python with "
                     "GLIBC_TUNABLES=glibc.rtld.optional_static_tls=4096 in the environment, or use mooncake before importing them."},
      {"GLIBC_", "The C library of this system is older than the one it was built for. Build the package on this machine: "
                 "pip install ./sdk/python in a checkout."},
      {"ELF", "It was built for another kind of machine, or is damaged. Install mooncake-transfer-engine again."},
      {"failed to map", "Perhaps its file system is mounted noexec. Install the package on one that is not."},
      {"undefined symbol", OTHER_BUILD},
      {"of version", OTHER_BUILD},
  };
  if (access(path, F_OK) != 0)
    return "The package was installed without it. Install mooncake-transfer-engine again, or run make pydev in a checkout.";
  for (size_t i = 0; i < sizeof hints / sizeof *hints; i++)
    if (strstr(error, hints[i].words)) return hints[i].text;
  return "Install mooncake-transfer-engine again.";
}

static void fail(const char *path, const char *error) {
  snprintf(failure, sizeof failure, "cannot load %.*s: %.600s. %s", PATH_MAX, path, error, hint(path, error));
}

/* Opens the library and fills the table. Runs without the GIL, one thread at a time. The
 * library stays open where it is of no use: a Go runtime cannot be unloaded. */
static enum state open_library(const char *path) {
  static bool watched;
  if (!watched && pthread_atfork(NULL, NULL, in_child) != 0) {
    fail(path, "no memory to watch for a fork");
    return NOT_LOADED;
  }
  watched = true;
  void *opened = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!opened) {
    fail(path, dlerror());
    return NOT_LOADED;
  }
#define MCK_LOOK_UP(name)                                  \
  *(void **)&functions.name = dlsym(opened, "mck_" #name); \
  if (!functions.name) {                                   \
    fail(path, "undefined symbol: mck_" #name);            \
    return UNUSABLE;                                       \
  }
  MCK_FUNCTIONS(MCK_LOOK_UP)
#undef MCK_LOOK_UP
  uint32_t abi = functions.abi();
  if (abi != MCK_ABI) {
    char error[80];
    snprintf(error, sizeof error, "its calls are of version %u, not %d", abi, MCK_ABI);
    fail(path, error);
    return UNUSABLE;
  }
  return LOADED;
}

const library *library_need(void) {
  if (library_left_behind()) {
    PyErr_SetString(PyExc_RuntimeError, "mooncake was used before fork; create the store in the child or start it with spawn");
    return NULL;
  }
  if (atomic_load_explicit(&state, memory_order_acquire) == LOADED) return &functions;
  const char *path = library_path(); /* the module is not made without it */
  char why[sizeof failure];
  int now;
  Py_BEGIN_ALLOW_THREADS
  pthread_mutex_lock(&loading);
  if (atomic_load(&state) == NOT_LOADED) {
    atomic_store(&state, LOADING); /* a fork from here on leaves half a library in the child */
    atomic_store(&state, open_library(path));
  }
  now = atomic_load(&state);
  if (now != LOADED) memcpy(why, failure, sizeof why);
  pthread_mutex_unlock(&loading);
  Py_END_ALLOW_THREADS
  if (now == LOADED) return &functions;
  PyObject *message = PyUnicode_DecodeFSDefault(why), *name = PyUnicode_FromString("mooncake"), *file = PyUnicode_DecodeFSDefault(path);
  if (message && name && file) PyErr_SetImportError(message, name, file);
  Py_XDECREF(message);
  Py_XDECREF(name);
  Py_XDECREF(file);
  return NULL;
}
