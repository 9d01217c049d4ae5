#define _GNU_SOURCE
#include "fake.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

CURRENT(ibv_query_port);
CURRENT(ibv_open_device);

int ibv_fork_init(void) { return w ? enter(F_FORK_INIT, -1) : 0; }

static void put_device(struct fdevice *d)
{
	if (__atomic_sub_fetch(&d->refs, 1, __ATOMIC_ACQ_REL) == 0)
		free(d);
}

static struct fdevice *make_device(uint32_t i)
{
	Dl_info info;
	struct fdevice *d = calloc(1, sizeof(*d));
	if (!d)
		abort();
	dladdr((void *)make_device, &info);
	d->refs = 1;
	d->index = i;
	d->dev.node_type = w->device[i].iwarp ? 4 : 1;
	d->dev.transport_type = w->device[i].iwarp ? ABI_TRANSPORT_IWARP : 0;
	snprintf(d->dev.name, sizeof(d->dev.name), "fake%u", i);
	snprintf(d->dev.dev_name, sizeof(d->dev.dev_name), "uverbs%u", i);
	snprintf(d->dev.ibdev_path, sizeof(d->dev.ibdev_path), "%.230s.sysfs/fake%u", info.dli_fname, i);
	return d;
}

struct abi_device **ibv_get_device_list(int *n)
{
	int rc = w ? enter(F_GET_DEVICE_LIST, -1) : 0;
	if (rc) {
		errno = rc;
		return NULL;
	}
	uint32_t count = w ? w->devices : 0;
	struct abi_device **list = calloc(count + 1, sizeof(*list));
	if (!list)
		abort();
	for (uint32_t i = 0; i < count; i++)
		list[i] = &make_device(i)->dev;
	live(K_LIST, 1);
	if (n)
		*n = (int)count;
	return list;
}

void ibv_free_device_list(struct abi_device **list)
{
	for (int i = 0; list[i]; i++)
		put_device((struct fdevice *)list[i]);
	free(list);
	live(K_LIST, -1);
}

uint64_t ibv_get_device_guid(struct abi_device *dev)
{
	return __builtin_bswap64(0x0200fa4e00000000ull + ((struct fdevice *)dev)->index);
}

const char *ibv_get_device_name(struct abi_device *dev) { return dev->name; }

struct abi_context *ibv_open_device(struct abi_device *dev)
{
	struct fdevice *d = (struct fdevice *)dev;
	int fds[2];
	int rc = enter(F_OPEN_DEVICE, (int)d->index);
	if (rc || pipe2(fds, O_CLOEXEC) != 0) {
		errno = rc ? rc : errno;
		return NULL;
	}
	struct fcontext *c = calloc(1, sizeof(*c));
	if (!c)
		abort();
	__atomic_fetch_add(&d->refs, 1, __ATOMIC_ACQ_REL);
	c->fdev = d;
	c->dev = d->index;
	c->ctx.device = dev;
	c->ctx.ops.poll_cq = fake_poll_cq;
	c->ctx.ops.req_notify_cq = fake_req_notify_cq;
	c->ctx.ops.post_send = fake_post_send;
	c->ctx.cmd_fd = -1;
	c->ctx.async_fd = fds[0];
	c->async_write = fds[1];
	c->ctx.num_comp_vectors = (int)w->device[c->dev].vectors;
#ifndef FAKE_OLD
	c->ctx.abi_compat = ABI_EXTENDED;
	c->before.query_port = fake_query_port;
	c->before.words[ABI_BACK_QUERY_PORT / 8 - 1] = ABI_BACK_QUERY_PORT + sizeof(c->ctx);
#endif
	lock();
	c->events_seen = w->events_written;
	unlock();
	// The program's signal handlers do not expect this thread.
	sigset_t all, old;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	rc = pthread_create(&c->thread, NULL, engine, c);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (rc)
		abort();
	live(K_CONTEXT, 1);
	return &c->ctx;
}

static struct fcontext *of(struct abi_context *ctx)
{
	return (struct fcontext *)((char *)ctx - offsetof(struct fcontext, ctx));
}

int ibv_close_device(struct abi_context *ctx)
{
	struct fcontext *c = of(ctx);
	lock();
	int rc = enter_locked(F_CLOSE_DEVICE, (int)c->dev);
	// The kernel would clean up; the fake wants to know.
	if (!rc && c->children)
		rc = EBUSY;
	if (!rc)
		c->stop = 1;
	unlock();
	if (rc) {
		errno = rc;
		return rc;
	}
	kick();
	pthread_join(c->thread, NULL);
	close(c->ctx.async_fd);
	close(c->async_write);
	put_device(c->fdev);
	free(c);
	live(K_CONTEXT, -1);
	return 0;
}

int ibv_query_device(struct abi_context *ctx, struct abi_device_attr *a)
{
	struct device *d = &w->device[of(ctx)->dev];
	int rc = enter(F_QUERY_DEVICE, (int)of(ctx)->dev);
	if (rc)
		return rc;
	memset(a, 0, sizeof(*a));
	snprintf(a->fw_ver, sizeof(a->fw_ver), "1.2.3");
	a->node_guid = ibv_get_device_guid(ctx->device);
	a->max_mr_size = d->max_mr_size;
	a->page_size_cap = 0xfffff000;
	a->vendor_id = 0xfa4e;
	a->max_qp = (int)d->max_qp;
	a->max_qp_wr = (int)d->max_qp_wr;
	a->max_sge = a->max_sge_rd = 1;
	a->max_cq = (int)d->max_cq;
	a->max_cqe = (int)d->max_cqe;
	a->max_mr = (int)d->max_mr;
	a->max_pd = (int)d->max_pd;
	a->max_qp_rd_atom = a->max_qp_init_rd_atom = (int)d->max_reads;
	a->max_pkeys = 1;
	a->phys_port_cnt = 1;
	return 0;
}

int fake_query_port(struct abi_context *ctx, uint8_t port, struct abi_port_attr *a, size_t len)
{
	struct device *d = &w->device[of(ctx)->dev];
	int rc = enter(F_QUERY_PORT, (int)of(ctx)->dev);
	if (rc || port != 1)
		return rc ? rc : EINVAL;
	struct abi_port_attr p = {
		.state = __atomic_load_n(&d->state, __ATOMIC_ACQUIRE),
		.max_mtu = d->max_mtu,
		.active_mtu = d->active_mtu,
		.gid_tbl_len = GIDS,
		.max_msg_sz = 1u << 30,
		.pkey_tbl_len = 1,
		.lid = (uint16_t)d->lid,
		.active_width = (uint8_t)d->width,
		.active_speed = d->speed < 256 ? (uint8_t)d->speed : 128,
		.link_layer = (uint8_t)d->link_layer,
		.active_speed_ex = d->speed,
	};
	memcpy(a, &p, len < sizeof(p) ? len : sizeof(p));
	return 0;
}

// Without the newer fields.
int ibv_query_port(struct abi_context *ctx, uint8_t port, struct abi_port_attr *a)
{
	return fake_query_port(ctx, port, a, offsetof(struct abi_port_attr, port_cap_flags2));
}

int ibv_query_gid(struct abi_context *ctx, uint8_t port, int index, union abi_gid *g)
{
	int rc = enter(F_QUERY_GID, (int)of(ctx)->dev);
	if (rc || port != 1 || index < 0 || index >= GIDS) {
		errno = rc ? rc : EINVAL;
		return -1;
	}
	memcpy(g->raw, w->device[of(ctx)->dev].gids[index].addr, 16);
	return 0;
}

#ifndef FAKE_OLD
static int fill(struct abi_gid_entry *e, const struct gid *g, uint32_t index)
{
	static const uint8_t zero[16];
	if (memcmp(g->addr, zero, sizeof(zero)) == 0)
		return ENODATA;
	memcpy(e->gid.raw, g->addr, 16);
	e->gid_index = index;
	e->port_num = 1;
	e->gid_type = g->type;
	e->ndev_ifindex = g->ifindex;
	return 0;
}

int _ibv_query_gid_ex(struct abi_context *ctx, uint32_t port, uint32_t index, struct abi_gid_entry *e, uint32_t flags,
		      size_t size)
{
	int rc = enter(F_QUERY_GID_EX, (int)of(ctx)->dev);
	if (rc || port != 1 || index >= GIDS || flags || size != sizeof(*e))
		return rc ? rc : EINVAL;
	return fill(e, &w->device[of(ctx)->dev].gids[index], index);
}

int64_t _ibv_query_gid_table(struct abi_context *ctx, struct abi_gid_entry *e, size_t max, uint32_t flags, size_t size)
{
	int rc = enter(F_QUERY_GID_TABLE, (int)of(ctx)->dev);
	if (rc || flags || size != sizeof(*e))
		return -(rc ? rc : EINVAL);
	size_t n = 0;
	for (uint32_t i = 0; i < GIDS && n < max; i++)
		if (fill(&e[n], &w->device[of(ctx)->dev].gids[i], i) == 0)
			n++;
	return (int64_t)n;
}
#endif
