// One thread for each open device executes the requests of its QPs and delivers events.
#define _GNU_SOURCE
#include "fake.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { CHUNK = 256 << 10 }; // bytes moved at once
enum { TURN = 8 };          // steps of one QP before the next has its turn
enum { LOC_PROT = 4, REM_INV_REQ = 9, REM_ACCESS = 10, REM_OP = 11, RETRY_EXC = 12, LATER = -1, STEP = -2 };

void to_error(struct fqp *qp)
{
	qp->shared->state = ABI_QPS_ERR;
	qp->qp.state = ABI_QPS_ERR;
}

void flush(struct fqp *qp)
{
	while (qp->head != qp->tail) {
		struct request *r = &qp->sq[qp->head % qp->size];
		complete(qp, r, ABI_WC_WR_FLUSH_ERR);
	}
}

// look finds the fault for a request, once.
static void look(struct fqp *qp, struct request *r)
{
	int read = r->wr.opcode == ABI_WR_RDMA_READ;
	r->looked = 1;
	r->fault.armed = 0;
	r->stall = w->stall_release;
	for (uint32_t i = 0, n = __atomic_load_n(&w->nfaults, __ATOMIC_ACQUIRE); i < n; i++) {
		struct fault *f = &w->faults[i];
		if (!__atomic_load_n(&f->armed, __ATOMIC_ACQUIRE))
			continue;
		if ((f->device >= 0 && f->device != (int)qp->c->dev) || (f->qpn && f->qpn != qp->qp.qp_num) ||
		    (f->opcode && (f->opcode == 2) != read))
			continue;
		if (f->skip > 0) {
			f->skip--;
			continue;
		}
		if (f->times == 0)
			continue;
		r->fault = *f;
		if (--f->times == 0)
			__atomic_store_n(&f->armed, 0, __ATOMIC_RELEASE);
		__atomic_fetch_add(&f->hits, 1, __ATOMIC_SEQ_CST);
		r->not_before = f->action == A_DELAY ? now_ms() + f->ms : 0;
		return;
	}
}

// find_mr checks a key and a range, and says where the memory is.
static const struct shared_mr *find_mr(uint32_t key, uint32_t device, uint32_t pd, int pid, uint64_t addr, uint64_t len,
				       uint32_t access, uint64_t *at)
{
	const struct shared_mr *m = &w->mrs[key & 0xfff];
	if (!m->used || m->key != key || m->device != device || m->pd != pd || m->pid != pid)
		return NULL;
	if ((m->access & access) != access || addr < m->iova || len > m->len || addr - m->iova > m->len - len)
		return NULL;
	*at = m->at + (addr - m->iova);
	return m;
}

// find_peer returns the QP that a QP is connected to, or NULL when no QP answers.
static struct shared_qp *find_peer(const struct shared_qp *s)
{
	struct shared_qp *p = &w->qps[s->dest & (QPS - 1)];
	if (!p->used || p->qpn != s->dest || p->dest != s->qpn || !alive(p->pid))
		return NULL;
	if (p->state != ABI_QPS_RTR && p->state != ABI_QPS_RTS)
		return NULL;
	if (w->device[s->device].state != 4 || w->device[p->device].state != 4)
		return NULL;
	for (int i = 0; i < GIDS; i++)
		if (memcmp(w->device[p->device].gids[i].addr, s->dgid, 16) == 0)
			return p;
	return NULL;
}

// refuse is what a responder does about a request that it must not execute: it fails too.
static int refuse(struct shared_qp *peer, int status)
{
	peer->state = ABI_QPS_ERR;
	kick();
	return status;
}

// step works on a request: it returns a status, LATER, or STEP when there is more to move.
static int step(struct fqp *qp, struct request *r, int64_t *next)
{
	int read = r->wr.opcode == ABI_WR_RDMA_READ;
	uint64_t len = r->sge.length, local = (uint64_t)(uintptr_t)r->inline_data, remote = 0;
	struct device *d = &w->device[qp->c->dev];
	int64_t now = now_ms();
	if (!r->looked)
		look(qp, r);
	int action = r->fault.armed ? (int)r->fault.action : A_NONE;
	if (action == A_STALL && r->stall == __atomic_load_n(&w->stall_release, __ATOMIC_ACQUIRE))
		return LATER;
	if (now < r->not_before) {
		*next = *next < r->not_before ? *next : r->not_before;
		return LATER;
	}
	if (action == A_STATUS)
		return (int)r->fault.status;
	if (len && !r->inline_data &&
	    !find_mr(r->sge.lkey, qp->c->dev, qp->shared->pd, qp->shared->pid, r->sge.addr, len, read ? 1 : 0, &local))
		return LOC_PROT;
	struct shared_qp *peer = find_peer(qp->shared);
	if (!peer) {
		if (!r->since)
			r->since = now;
		if (now - r->since >= d->retry_ms)
			return RETRY_EXC;
		*next = *next < now + 1 ? *next : now + 1;
		return LATER;
	}
	uint32_t need = read ? 4 : 2;
	if (!(peer->access & need))
		return refuse(peer, REM_INV_REQ);
	if (len && !find_mr(r->wr.rkey, peer->device, peer->pd, peer->pid, r->wr.remote_addr, len, need, &remote))
		return refuse(peer, REM_ACCESS);
	// Packets larger than the responder's MTU are an invalid request, smaller answers than
	// expected look like lost ones.
	uint32_t ours = 128u << qp->shared->mtu, theirs = 128u << peer->mtu;
	if (!read && ours > theirs && len > theirs)
		return refuse(peer, REM_INV_REQ);
	if (read && ours != theirs && len > (ours < theirs ? ours : theirs))
		return RETRY_EXC;
	uint64_t n = len - r->moved < CHUNK ? len - r->moved : CHUNK;
	if (n && copy(peer->pid, remote + r->moved, local + r->moved, n, !read))
		return alive(peer->pid) ? REM_OP : RETRY_EXC;
	r->moved += n;
	w->bytes += n;
	if (action == A_HALF && r->moved * 2 >= len)
		return (int)r->fault.status;
	if (r->moved < len)
		return STEP;
	if (action == A_FLIP && len) {
		uint8_t b;
		uint64_t off = r->fault.offset % len;
		if (copy(read ? qp->shared->pid : peer->pid, (read ? local : remote) + off, (uint64_t)(uintptr_t)&b, 1, 0) == 0) {
			b ^= 0x01;
			copy(read ? qp->shared->pid : peer->pid, (read ? local : remote) + off, (uint64_t)(uintptr_t)&b, 1, 1);
		}
	}
	return ABI_WC_SUCCESS;
}

// run takes one step with a QP. It returns whether there was something to do.
static int run(struct fqp *qp, int64_t *next)
{
	if (qp->head == qp->tail)
		return 0;
	if (qp->shared->state == ABI_QPS_ERR) {
		flush(qp);
		return 1;
	}
	if (qp->shared->state != ABI_QPS_RTS)
		return 0;
	struct request *r = &qp->sq[qp->head % qp->size];
	int rc = step(qp, r, next);
	if (rc == LATER)
		return 0;
	if (rc == STEP)
		return 1;
	complete(qp, r, rc);
	if (rc != ABI_WC_SUCCESS)
		to_error(qp);
	return 1;
}

void *engine(void *context)
{
	struct fcontext *c = context;
	for (;;) {
		uint32_t seen = __atomic_load_n(&w->kick, __ATOMIC_SEQ_CST);
		int64_t next = INT64_MAX;
		int busy = 0;
		lock();
		for (; c->events_seen != __atomic_load_n(&w->events_written, __ATOMIC_ACQUIRE); c->events_seen++) {
			struct event *e = &w->events[c->events_seen % EVENTS];
			if (e->device != c->dev)
				continue;
			struct fqp *qp = c->qps;
			while (qp && qp->qp.qp_num != e->qpn)
				qp = qp->next;
			if (!e->qpn || qp)
				post_event(c, (int)e->type, e->port, e->qpn ? qp : NULL);
		}
		for (struct fqp *qp = c->qps; qp; qp = qp->next)
			for (int i = 0; i < TURN && run(qp, &next); i++)
				busy = 1;
		int stop = c->stop;
		unlock();
		if (stop)
			return NULL;
		if (busy)
			continue;
		int64_t ms = next == INT64_MAX ? 1000 : next - now_ms();
		if (ms < 1)
			ms = 1;
		struct timespec t = {ms / 1000, ms % 1000 * 1000000};
		syscall(SYS_futex, &w->kick, FUTEX_WAIT, seen, &t, NULL, 0);
	}
}

// post_event queues an asynchronous event. The world is locked.
void post_event(struct fcontext *c, int type, uint32_t port, struct fqp *qp)
{
	int max = (int)(sizeof(c->queue) / sizeof(c->queue[0]));
	if (c->queued == max)
		return;
	struct abi_async_event *e = &c->queue[c->queued++];
	memset(e, 0, sizeof(*e));
	e->event_type = type;
	if (qp)
		e->element.qp = &qp->qp;
	else
		e->element.port_num = (int32_t)port;
	if (qp && type == ABI_EVENT_QP_FATAL)
		to_error(qp);
	if (write(c->async_write, "!", 1) != 1)
		abort();
}

int ibv_get_async_event(struct abi_context *ctx, struct abi_async_event *e)
{
	struct fcontext *c = (struct fcontext *)((char *)ctx - offsetof(struct fcontext, ctx));
	char byte;
	int rc = enter(F_GET_ASYNC_EVENT, (int)c->dev);
	if (rc) {
		errno = rc;
		return -1;
	}
	for (;;) {
		if (read(ctx->async_fd, &byte, 1) != 1)
			return -1;
		lock();
		int got = c->queued > 0;
		if (got) {
			*e = c->queue[0];
			memmove(c->queue, c->queue + 1, (size_t)--c->queued * sizeof(c->queue[0]));
			if (e->event_type >= ABI_EVENT_QP_FATAL && e->event_type <= ABI_EVENT_PATH_MIG_ERR)
				((struct fqp *)e->element.qp)->unacked++;
		}
		unlock();
		if (got)
			return 0;
	}
}

void ibv_ack_async_event(struct abi_async_event *e)
{
	if (e->event_type < ABI_EVENT_QP_FATAL || e->event_type > ABI_EVENT_PATH_MIG_ERR)
		return;
	lock();
	((struct fqp *)e->element.qp)->unacked--;
	unlock();
}
