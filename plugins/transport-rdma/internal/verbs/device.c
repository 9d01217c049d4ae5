//go:build cgo && linux && (amd64 || arm64 || loong64 || ppc64le || riscv64 || s390x)

#include "vb.h"

#include <errno.h>
#include <string.h>

int32_t vb_fork_init(struct vb_lib *lib)
{
	errno = 0;
	return vb_errno(lib->fork_init());
}

int32_t vb_devices(struct vb_lib *lib, struct abi_device ***list, int *n)
{
	errno = 0;
	*n = 0;
	*list = lib->get_device_list(n);
	if (*list)
		return 0;
	// Without the kernel's side of RDMA there is no device; that is no failure.
	return errno == ENOSYS ? 0 : vb_errno(-1);
}

void vb_free_devices(struct vb_lib *lib, struct abi_device **list)
{
	lib->free_device_list(list);
}

int32_t vb_open_device(struct vb_lib *lib, const char *name, struct vb_open *o)
{
	struct abi_device **list;
	int n;
	memset(o, 0, sizeof(*o));
	int32_t rc = vb_devices(lib, &list, &n);
	if (rc)
		return rc;
	o->listed = 1;
	rc = ENODEV;
	for (int i = 0; i < n; i++) {
		if (strncmp(list[i]->name, name, sizeof(list[i]->name)) != 0)
			continue;
		o->device = *list[i];
		errno = 0;
		o->ctx = lib->open_device(list[i]);
		rc = o->ctx ? 0 : vb_errno(-1);
		break;
	}
	if (list)
		lib->free_device_list(list);
	return rc;
}

int32_t vb_close_device(struct vb_lib *lib, struct abi_context *c)
{
	errno = 0;
	return vb_errno(lib->close_device(c));
}

int32_t vb_query_device(struct vb_lib *lib, struct abi_context *c, struct abi_device_attr *a)
{
	memset(a, 0, sizeof(*a));
	errno = 0;
	return vb_errno(lib->query_device(c, a));
}

typedef int (*query_port_fn)(struct abi_context *, uint8_t, struct abi_port_attr *, size_t);

// extended_query_port returns the function that fills in newer fields too, or NULL.
static query_port_fn extended_query_port(struct abi_context *ctx)
{
	if (ctx->abi_compat != ABI_EXTENDED)
		return NULL;
	// The structure grows downwards; its size says how far down it is valid.
	const char *base = (const char *)ctx;
	size_t size;
	memcpy(&size, base - ABI_BACK_SZ, sizeof(size));
	if (size < sizeof(*ctx) + ABI_BACK_QUERY_PORT)
		return NULL;
	query_port_fn fn;
	memcpy(&fn, base - ABI_BACK_QUERY_PORT, sizeof(fn));
	return fn;
}

int32_t vb_query_port(struct vb_lib *lib, struct abi_context *c, uint8_t port, struct abi_port_attr *a)
{
	memset(a, 0, sizeof(*a));
	errno = 0;
	query_port_fn fn = extended_query_port(c);
	if (fn)
		return vb_errno(fn(c, port, a, sizeof(*a)));
	return vb_errno(lib->query_port(c, port, a));
}

int32_t vb_gid(struct vb_lib *lib, struct abi_context *c, uint8_t port, int index, union abi_gid *g)
{
	memset(g, 0, sizeof(*g));
	errno = 0;
	return vb_errno(lib->query_gid(c, port, index, g));
}

int32_t vb_gid_ex(struct vb_lib *lib, struct abi_context *c, uint32_t port, uint32_t index, struct abi_gid_entry *e)
{
	memset(e, 0, sizeof(*e));
	errno = 0;
	return vb_errno(lib->query_gid_ex(c, port, index, e, 0, sizeof(*e)));
}

int32_t vb_gid_table(struct vb_lib *lib, struct abi_context *c, struct abi_gid_entry *e, size_t max, size_t *n)
{
	errno = 0;
	int64_t rc = lib->query_gid_table(c, e, max, 0, sizeof(*e));
	*n = rc < 0 ? 0 : (size_t)rc;
	return rc < 0 ? (int32_t)-rc : 0;
}

// is_qp and is_port tell what an event's element is.
static int is_qp(int32_t type)
{
	return (type >= ABI_EVENT_QP_FATAL && type <= ABI_EVENT_PATH_MIG_ERR) || type == ABI_EVENT_QP_LAST_WQE_REACHED;
}

static int is_port(int32_t type)
{
	return (type >= ABI_EVENT_PORT_ACTIVE && type <= ABI_EVENT_SM_CHANGE) ||
	       type == ABI_EVENT_CLIENT_REREGISTER || type == ABI_EVENT_GID_CHANGE;
}

int32_t vb_next_event(struct vb_lib *lib, struct abi_context *c, struct vb_event *ev)
{
	struct abi_async_event e;
	memset(&e, 0, sizeof(e));
	memset(ev, 0, sizeof(*ev));
	errno = 0;
	if (lib->get_async_event(c, &e) != 0)
		return errno == EWOULDBLOCK || errno == EINTR ? EAGAIN : vb_errno(-1);
	ev->type = (uint32_t)e.event_type;
	if (is_qp(e.event_type)) {
		// The QP cannot go away before the event is acknowledged.
		ev->qp = e.element.qp->qp_num;
		ev->tag = vb_qp_tag(e.element.qp);
	} else if (is_port(e.event_type)) {
		ev->port = (uint32_t)e.element.port_num;
	}
	lib->ack_async_event(&e);
	return 0;
}
