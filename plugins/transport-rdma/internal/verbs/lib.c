//go:build cgo && linux && (amd64 || arm64 || loong64 || ppc64le || riscv64 || s390x)

#define _GNU_SOURCE
#include "vb.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

// The libraries that are loaded; they stay. Guarded by libs_lock.
static struct vb_lib *libs;
static pthread_mutex_t libs_lock = PTHREAD_MUTEX_INITIALIZER;

int32_t vb_errno(int rc)
{
	// Most calls return an errno, some -1 with errno set, some a negative errno.
	if (rc == 0)
		return 0;
	if (rc > 0)
		return rc;
	if (rc < -1)
		return -rc;
	return errno ? errno : EIO;
}

// symbol prefers the version whose interface abi.h describes: the library may have an older one
// of the same name.
static void *symbol(void *dl, const char *name, const char *version)
{
	void *p = NULL;
#ifdef __GLIBC__
	p = dlvsym(dl, name, version);
#else
	(void)version;
#endif
	return p ? p : dlsym(dl, name);
}

#define NEED(member, name, version)                                                                \
	do {                                                                                       \
		void *p = symbol(lib->dl, name, version);                                          \
		if (!p)                                                                            \
			return name;                                                               \
		*(void **)&lib->member = p;                                                        \
	} while (0)

#define MAY(member, name, version) (*(void **)&lib->member = symbol(lib->dl, name, version))

// resolve returns the name of a symbol that is missing, or NULL.
static const char *resolve(struct vb_lib *lib)
{
	NEED(fork_init, "ibv_fork_init", "IBVERBS_1.1");
	NEED(get_device_list, "ibv_get_device_list", "IBVERBS_1.1");
	NEED(free_device_list, "ibv_free_device_list", "IBVERBS_1.1");
	NEED(open_device, "ibv_open_device", "IBVERBS_1.1");
	NEED(close_device, "ibv_close_device", "IBVERBS_1.1");
	NEED(query_device, "ibv_query_device", "IBVERBS_1.1");
	NEED(query_port, "ibv_query_port", "IBVERBS_1.1");
	NEED(query_gid, "ibv_query_gid", "IBVERBS_1.1");
	NEED(get_async_event, "ibv_get_async_event", "IBVERBS_1.1");
	NEED(ack_async_event, "ibv_ack_async_event", "IBVERBS_1.1");
	NEED(alloc_pd, "ibv_alloc_pd", "IBVERBS_1.1");
	NEED(dealloc_pd, "ibv_dealloc_pd", "IBVERBS_1.1");
	NEED(reg_mr, "ibv_reg_mr", "IBVERBS_1.1");
	NEED(dereg_mr, "ibv_dereg_mr", "IBVERBS_1.1");
	NEED(create_comp_channel, "ibv_create_comp_channel", "IBVERBS_1.0");
	NEED(destroy_comp_channel, "ibv_destroy_comp_channel", "IBVERBS_1.0");
	NEED(create_cq, "ibv_create_cq", "IBVERBS_1.1");
	NEED(destroy_cq, "ibv_destroy_cq", "IBVERBS_1.1");
	NEED(get_cq_event, "ibv_get_cq_event", "IBVERBS_1.1");
	NEED(ack_cq_events, "ibv_ack_cq_events", "IBVERBS_1.1");
	NEED(create_qp, "ibv_create_qp", "IBVERBS_1.1");
	NEED(modify_qp, "ibv_modify_qp", "IBVERBS_1.1");
	NEED(query_qp, "ibv_query_qp", "IBVERBS_1.1");
	NEED(destroy_qp, "ibv_destroy_qp", "IBVERBS_1.1");
	MAY(reg_mr_iova2, "ibv_reg_mr_iova2", "IBVERBS_1.8");
	MAY(reg_dmabuf_mr, "ibv_reg_dmabuf_mr", "IBVERBS_1.12");
	MAY(query_gid_ex, "_ibv_query_gid_ex", "IBVERBS_1.11");
	MAY(query_gid_table, "_ibv_query_gid_table", "IBVERBS_1.11");
	return NULL;
}

static struct vb_lib *load(const char *path, char *reason, size_t size)
{
	void *dl = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!dl) {
		const char *why = dlerror();
		snprintf(reason, size, "%s", why ? why : "dlopen failed");
		return NULL;
	}
	for (struct vb_lib *l = libs; l; l = l->next) {
		if (l->dl == dl) {
			dlclose(dl); // gives back the count of this dlopen, not the library
			return l;
		}
	}
	struct vb_lib *lib = calloc(1, sizeof(*lib));
	if (!lib) {
		dlclose(dl);
		snprintf(reason, size, "out of memory");
		return NULL;
	}
	lib->dl = dl;
	const char *missing = resolve(lib);
	if (missing) {
		snprintf(reason, size, "symbol %s is missing; rdma-core 17 or newer is needed", missing);
		dlclose(dl);
		free(lib);
		return NULL;
	}
	lib->next = libs;
	libs = lib;
	return lib;
}

struct vb_lib *vb_load(const char *path, char *reason, size_t size, uint32_t *features)
{
	pthread_mutex_lock(&libs_lock);
	struct vb_lib *lib = load(path, reason, size);
	pthread_mutex_unlock(&libs_lock);
	if (lib)
		*features = (lib->reg_mr_iova2 ? VB_RELAXED : 0) | (lib->reg_dmabuf_mr ? VB_DMABUF : 0) |
			    (lib->query_gid_ex && lib->query_gid_table ? VB_GID_TABLE : 0);
	return lib;
}
