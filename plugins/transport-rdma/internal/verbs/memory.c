//go:build cgo && linux && (amd64 || arm64 || loong64 || ppc64le || riscv64 || s390x)

#include "vb.h"

#include <errno.h>

// CREATE stores what a call of the library makes, and is 0 or the errno of its failure.
#define CREATE(out, call) (errno = 0, (*(out) = (call)) ? 0 : vb_errno(-1))

int32_t vb_alloc_pd(struct vb_lib *lib, struct abi_context *c, struct abi_pd **out)
{
	return CREATE(out, lib->alloc_pd(c));
}

int32_t vb_dealloc_pd(struct vb_lib *lib, struct abi_pd *p)
{
	errno = 0;
	return vb_errno(lib->dealloc_pd(p));
}

int32_t vb_reg_mr(struct vb_lib *lib, struct abi_pd *p, uint64_t addr, uint64_t len, uint32_t access, struct abi_mr **out)
{
	void *mem = (void *)(uintptr_t)addr;
	if (access & ABI_ACCESS_RELAXED_ORDERING)
		return CREATE(out, lib->reg_mr_iova2(p, mem, len, addr, access));
	return CREATE(out, lib->reg_mr(p, mem, len, (int)access));
}

int32_t vb_reg_dmabuf(struct vb_lib *lib, struct abi_pd *p, uint64_t offset, uint64_t len, uint64_t iova, int fd, uint32_t access, struct abi_mr **out)
{
	return CREATE(out, lib->reg_dmabuf_mr(p, offset, len, iova, fd, (int)access));
}

int32_t vb_dereg_mr(struct vb_lib *lib, struct abi_mr *m)
{
	errno = 0;
	return vb_errno(lib->dereg_mr(m));
}

int32_t vb_create_channel(struct vb_lib *lib, struct abi_context *c, struct abi_comp_channel **out)
{
	return CREATE(out, lib->create_comp_channel(c));
}

int32_t vb_destroy_channel(struct vb_lib *lib, struct abi_comp_channel *ch)
{
	errno = 0;
	return vb_errno(lib->destroy_comp_channel(ch));
}
