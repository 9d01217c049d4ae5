//go:build cgo && linux && (amd64 || arm64 || loong64 || ppc64le || riscv64 || s390x)

#include "vb.h"

#include <errno.h>
#include <stdlib.h>

int32_t vb_alloc_pd(struct vb_ctx *c, struct vb_pd **out)
{
	struct vb_pd *p = calloc(1, sizeof(*p));
	if (!p)
		return ENOMEM;
	errno = 0;
	p->lib = c->lib;
	p->pd = c->lib->alloc_pd(c->ctx);
	if (!p->pd) {
		int32_t rc = vb_errno(-1);
		free(p);
		return rc;
	}
	*out = p;
	return 0;
}

int32_t vb_dealloc_pd(struct vb_pd *p)
{
	errno = 0;
	int32_t rc = vb_errno(p->lib->dealloc_pd(p->pd));
	if (!rc)
		free(p);
	return rc;
}

static int32_t keep(struct vb_mr *m, struct vb_mr **out)
{
	if (m->mr) {
		*out = m;
		return 0;
	}
	int32_t rc = vb_errno(-1);
	free(m);
	return rc;
}

int32_t vb_reg_mr(struct vb_pd *p, uint64_t addr, uint64_t len, uint32_t access, int relaxed, struct vb_mr **out)
{
	struct vb_mr *m = calloc(1, sizeof(*m));
	if (!m)
		return ENOMEM;
	m->lib = p->lib;
	errno = 0;
	void *mem = (void *)(uintptr_t)addr;
	if (relaxed)
		m->mr = p->lib->reg_mr_iova2(p->pd, mem, len, addr, access);
	else
		m->mr = p->lib->reg_mr(p->pd, mem, len, (int)access);
	return keep(m, out);
}

int32_t vb_reg_dmabuf(struct vb_pd *p, uint64_t offset, uint64_t len, uint64_t iova, int fd, uint32_t access, struct vb_mr **out)
{
	struct vb_mr *m = calloc(1, sizeof(*m));
	if (!m)
		return ENOMEM;
	m->lib = p->lib;
	errno = 0;
	m->mr = p->lib->reg_dmabuf_mr(p->pd, offset, len, iova, fd, (int)access);
	return keep(m, out);
}

int32_t vb_dereg_mr(struct vb_mr *m)
{
	errno = 0;
	int32_t rc = vb_errno(m->lib->dereg_mr(m->mr));
	if (!rc)
		free(m);
	return rc;
}

int32_t vb_create_channel(struct vb_ctx *c, struct vb_channel **out)
{
	struct vb_channel *ch = calloc(1, sizeof(*ch));
	if (!ch)
		return ENOMEM;
	errno = 0;
	ch->lib = c->lib;
	ch->ch = c->lib->create_comp_channel(c->ctx);
	if (!ch->ch) {
		int32_t rc = vb_errno(-1);
		free(ch);
		return rc;
	}
	*out = ch;
	return 0;
}

int32_t vb_destroy_channel(struct vb_channel *ch)
{
	errno = 0;
	int32_t rc = vb_errno(ch->lib->destroy_comp_channel(ch->ch));
	if (!rc)
		free(ch);
	return rc;
}
