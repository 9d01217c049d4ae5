#define _GNU_SOURCE
#include "fake.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

CURRENT(ibv_reg_mr);

static struct fcontext *of(struct abi_context *ctx)
{
	return (struct fcontext *)((char *)ctx - offsetof(struct fcontext, ctx));
}

struct abi_pd *ibv_alloc_pd(struct abi_context *ctx)
{
	struct fcontext *c = of(ctx);
	struct device *d = &w->device[c->dev];
	lock();
	int rc = enter_locked(F_ALLOC_PD, (int)c->dev);
	if (!rc && d->pds >= d->max_pd)
		rc = ENOMEM;
	if (rc) {
		unlock();
		errno = rc;
		return NULL;
	}
	struct fpd *p = calloc(1, sizeof(*p));
	p->pd.context = ctx;
	p->id = ++w->next_pd;
	d->pds++;
	c->children++;
	unlock();
	live(K_PD, 1);
	return &p->pd;
}

int ibv_dealloc_pd(struct abi_pd *pd)
{
	struct fpd *p = (struct fpd *)pd;
	struct fcontext *c = of(pd->context);
	lock();
	int rc = enter_locked(F_DEALLOC_PD, (int)c->dev);
	if (!rc && p->children)
		rc = EBUSY;
	if (!rc) {
		w->device[c->dev].pds--;
		c->children--;
	}
	unlock();
	if (rc)
		return rc;
	free(p);
	live(K_PD, -1);
	return 0;
}

// mapped reports whether the process has all pages of a range.
static int mapped(uint64_t addr, uint64_t len)
{
	uint64_t page = 4096, from = addr & ~(page - 1), to = (addr + len + page - 1) & ~(page - 1);
	unsigned char seen[1024];
	for (; from < to; from += sizeof(seen) * page) {
		uint64_t n = to - from < sizeof(seen) * page ? to - from : sizeof(seen) * page;
		if (mincore((void *)from, n, seen) != 0)
			return 0;
	}
	return 1;
}

static struct shared_mr *free_slot(void)
{
	for (int i = 0; i < MRS; i++) {
		struct shared_mr *m = &w->mrs[i];
		if (m->used && alive(m->pid))
			continue;
		m->generation = (m->generation + 1) & 0xfffff;
		m->key = m->generation << 12 | (uint32_t)i;
		return m;
	}
	return NULL;
}

static int refused(const struct device *d, uint64_t len, uint32_t access)
{
	if (len == 0 || len > d->max_mr_size)
		return EINVAL;
	// Peers may not write what this side may not.
	if ((access & (2 | 8)) && !(access & 1))
		return EINVAL;
	if (d->mrs >= d->max_mr)
		return ENOMEM;
	if (d->memlock && d->pinned + len > d->memlock)
		return ENOMEM;
	return 0;
}

static struct abi_mr *reg(enum func f, struct abi_pd *pd, uint64_t at, uint64_t len, uint64_t iova, uint32_t access,
			  void *map, size_t map_len)
{
	struct fcontext *c = of(pd->context);
	struct device *d = &w->device[c->dev];
	struct shared_mr *s = NULL;
	lock();
	int rc = f == F_REG_DMABUF_MR ? 0 : enter_locked(f, (int)c->dev);
	if (!rc)
		rc = refused(d, len, access);
	if (!rc && !map && !mapped(at, len))
		rc = EFAULT;
	if (!rc && !(s = free_slot()))
		rc = ENOMEM;
	if (rc) {
		unlock();
		errno = rc;
		return NULL;
	}
	struct fmr *m = calloc(1, sizeof(*m));
	struct fpd *p = (struct fpd *)pd;
	m->shared = s;
	m->map = map;
	m->map_len = map_len;
	s->used = 1;
	s->device = c->dev;
	s->pid = getpid();
	s->pd = p->id;
	s->access = access;
	s->iova = iova;
	s->len = len;
	s->at = at;
	m->mr = (struct abi_mr){pd->context, pd, (void *)(uintptr_t)iova, len, s->key, s->key, s->key};
	p->children++;
	d->mrs++;
	d->pinned += len;
	unlock();
	live(K_MR, 1);
	return &m->mr;
}

struct abi_mr *ibv_reg_mr(struct abi_pd *pd, void *addr, size_t len, int access)
{
	if ((uint32_t)access >> 20) { // optional rights need ibv_reg_mr_iova2
		errno = EINVAL;
		return NULL;
	}
	return reg(F_REG_MR, pd, (uint64_t)addr, len, (uint64_t)addr, (uint32_t)access, NULL, 0);
}

#ifndef FAKE_OLD
struct abi_mr *ibv_reg_mr_iova2(struct abi_pd *pd, void *addr, size_t len, uint64_t iova, unsigned int access)
{
	return reg(F_REG_MR_IOVA2, pd, (uint64_t)addr, len, iova, access, NULL, 0);
}

// is_dmabuf takes memfds for dma-bufs: what a user without a GPU can make.
static int is_dmabuf(int fd, uint64_t end)
{
	char link[64], name[256];
	struct stat st;
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	ssize_t n = readlink(link, name, sizeof(name) - 1);
	if (n < 0)
		return EBADF;
	name[n] = 0;
	if (!strstr(name, "memfd:") && !strstr(name, "dmabuf"))
		return EINVAL;
	if (fstat(fd, &st) != 0)
		return errno;
	return (uint64_t)st.st_size < end ? EINVAL : 0;
}

struct abi_mr *ibv_reg_dmabuf_mr(struct abi_pd *pd, uint64_t offset, size_t len, uint64_t iova, int fd, int access)
{
	uint64_t page = 4096;
	int rc = enter(F_REG_DMABUF_MR, (int)of(pd->context)->dev);
	if (!rc)
		rc = is_dmabuf(fd, offset + len);
	if (!rc && (offset % page != iova % page || !len))
		rc = EINVAL;
	if (rc) {
		errno = rc;
		return NULL;
	}
	uint64_t from = offset & ~(page - 1);
	size_t map_len = (size_t)(offset + len - from);
	char *map = mmap(NULL, map_len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)from);
	if (map == MAP_FAILED)
		return NULL;
	struct abi_mr *m = reg(F_REG_DMABUF_MR, pd, (uint64_t)map + (offset - from), len, iova, (uint32_t)access, map, map_len);
	if (!m) {
		rc = errno;
		munmap(map, map_len);
		errno = rc;
	}
	return m;
}
#endif

int ibv_dereg_mr(struct abi_mr *mr)
{
	struct fmr *m = (struct fmr *)mr;
	struct fcontext *c = of(mr->context);
	lock();
	int rc = enter_locked(F_DEREG_MR, (int)c->dev);
	if (!rc) {
		m->shared->used = 0;
		((struct fpd *)mr->pd)->children--;
		w->device[c->dev].mrs--;
		w->device[c->dev].pinned -= mr->length;
	}
	unlock();
	if (rc)
		return rc;
	if (m->map)
		munmap(m->map, m->map_len);
	free(m);
	live(K_MR, -1);
	return 0;
}
