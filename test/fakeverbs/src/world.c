#define _GNU_SOURCE
#include "fake.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

struct world *w;
static struct proc *me;

static void make_lock(void)
{
	pthread_mutexattr_t a;
	pthread_mutexattr_init(&a);
	pthread_mutexattr_setpshared(&a, PTHREAD_PROCESS_SHARED);
	pthread_mutexattr_setrobust(&a, PTHREAD_MUTEX_ROBUST);
	pthread_mutex_init(&w->lock, &a);
	pthread_mutexattr_destroy(&a);
}

static void join_world(void)
{
	uint32_t fresh = 0;
	if (__atomic_compare_exchange_n(&w->ready, &fresh, 1, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
		make_lock();
		__atomic_store_n(&w->ready, 2, __ATOMIC_RELEASE);
	}
	while (__atomic_load_n(&w->ready, __ATOMIC_ACQUIRE) != 2)
		usleep(100);
	lock();
	for (int i = 0; i < PROCS && !me; i++) {
		struct proc *p = &w->procs[i];
		if (p->pid && alive(p->pid))
			continue;
		*p = (struct proc){.pid = getpid()};
		me = p;
	}
	unlock();
}

// The world lies beside the copy of the library, with .world after its name.
__attribute__((constructor)) static void find_world(void)
{
	Dl_info info;
	char path[PATH_MAX];
	struct stat st;
	if (!dladdr((void *)find_world, &info))
		return;
	snprintf(path, sizeof(path), "%s.world", info.dli_fname);
	int fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return;
	if (fstat(fd, &st) == 0 && (size_t)st.st_size >= sizeof(*w)) {
		void *p = mmap(NULL, sizeof(*w), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		struct world *found = p == MAP_FAILED ? NULL : p;
		if (found && found->magic == MAGIC && found->size == sizeof(*w))
			w = found;
	}
	close(fd);
	if (!w)
		return;
	// The other processes of the world reach into this one's registered memory.
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
	join_world();
}

void lock(void)
{
	if (pthread_mutex_lock(&w->lock) == EOWNERDEAD)
		pthread_mutex_consistent(&w->lock);
}

void unlock(void) { pthread_mutex_unlock(&w->lock); }

void kick(void)
{
	__atomic_fetch_add(&w->kick, 1, __ATOMIC_SEQ_CST);
	syscall(SYS_futex, &w->kick, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

void live(enum kind k, int by)
{
	if (me)
		__atomic_fetch_add(&me->live[k], by, __ATOMIC_SEQ_CST);
}

int enter_locked(enum func f, int device)
{
	__atomic_fetch_add(&w->calls[f], 1, __ATOMIC_SEQ_CST);
	for (uint32_t i = 0, n = __atomic_load_n(&w->nrules, __ATOMIC_ACQUIRE); i < n; i++) {
		struct rule *r = &w->rules[i];
		if (!__atomic_load_n(&r->armed, __ATOMIC_ACQUIRE) || r->func != f)
			continue;
		if (r->device >= 0 && device >= 0 && r->device != device)
			continue;
		if (r->skip > 0) {
			r->skip--;
			continue;
		}
		if (r->times == 0)
			continue;
		if (--r->times == 0)
			__atomic_store_n(&r->armed, 0, __ATOMIC_RELEASE);
		__atomic_fetch_add(&r->hits, 1, __ATOMIC_SEQ_CST);
		return r->error;
	}
	return 0;
}

int enter(enum func f, int device)
{
	lock();
	int rc = enter_locked(f, device);
	unlock();
	return rc;
}

int64_t now_ms(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

int alive(int pid) { return (me && pid == me->pid) || kill(pid, 0) == 0 || errno == EPERM; }

// copy moves n bytes between memory of this process and of process pid; write is towards pid.
// It returns 0 or an errno.
int copy(int pid, uint64_t remote, uint64_t local, uint64_t n, int write)
{
	struct iovec l = {(void *)(uintptr_t)local, n}, r = {(void *)(uintptr_t)remote, n};
	// Also within this process, since memory that is gone gives an error this way.
	ssize_t got = write ? process_vm_writev(pid, &l, 1, &r, 1, 0) : process_vm_readv(pid, &l, 1, &r, 1, 0);
	if (got < 0)
		return errno;
	return (uint64_t)got == n ? 0 : EFAULT;
}
