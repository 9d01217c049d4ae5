#define _GNU_SOURCE
#include "fake.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

CURRENT(ibv_create_cq);

static struct fcontext *of(struct abi_context *ctx)
{
	return (struct fcontext *)((char *)ctx - offsetof(struct fcontext, ctx));
}

struct abi_comp_channel *ibv_create_comp_channel(struct abi_context *ctx)
{
	struct fcontext *c = of(ctx);
	int fds[2];
	int rc = enter(F_CREATE_COMP_CHANNEL, (int)c->dev);
	if (rc || pipe2(fds, O_CLOEXEC) != 0) {
		errno = rc ? rc : errno;
		return NULL;
	}
	struct fchannel *ch = calloc(1, sizeof(*ch));
	ch->ch.context = ctx;
	ch->ch.fd = fds[0];
	ch->write_fd = fds[1];
	lock();
	c->children++;
	unlock();
	live(K_CHANNEL, 1);
	return &ch->ch;
}

int ibv_destroy_comp_channel(struct abi_comp_channel *channel)
{
	struct fchannel *ch = (struct fchannel *)channel;
	struct fcontext *c = of(channel->context);
	lock();
	int rc = enter_locked(F_DESTROY_COMP_CHANNEL, (int)c->dev);
	if (!rc && ch->cqs)
		rc = EBUSY;
	if (!rc)
		c->children--;
	unlock();
	if (rc)
		return rc;
	close(ch->ch.fd);
	close(ch->write_fd);
	free(ch);
	live(K_CHANNEL, -1);
	return 0;
}

struct abi_cq *ibv_create_cq(struct abi_context *ctx, int entries, void *cookie, struct abi_comp_channel *channel, int vector)
{
	struct fcontext *c = of(ctx);
	struct device *d = &w->device[c->dev];
	lock();
	int rc = enter_locked(F_CREATE_CQ, (int)c->dev);
	if (!rc && (entries < 1 || (uint32_t)entries > d->max_cqe || vector < 0 || (uint32_t)vector >= d->vectors))
		rc = EINVAL;
	if (!rc && d->cqs >= d->max_cq)
		rc = ENOMEM;
	if (rc) {
		unlock();
		errno = rc;
		return NULL;
	}
	struct fcq *q = calloc(1, sizeof(*q));
	q->cq.context = ctx;
	q->cq.channel = channel;
	q->cq.cq_context = cookie;
	q->cq.cqe = entries;
	q->ring = calloc((size_t)entries, sizeof(*q->ring));
	if (channel)
		((struct fchannel *)channel)->cqs++;
	d->cqs++;
	c->children++;
	unlock();
	live(K_CQ, 1);
	return &q->cq;
}

int ibv_destroy_cq(struct abi_cq *cq)
{
	struct fcq *q = (struct fcq *)cq;
	struct fcontext *c = of(cq->context);
	lock();
	int rc = enter_locked(F_DESTROY_CQ, (int)c->dev);
	// The library would wait for the acknowledgements.
	if (!rc && (q->qps || q->unacked))
		rc = EBUSY;
	if (!rc) {
		if (cq->channel)
			((struct fchannel *)cq->channel)->cqs--;
		w->device[c->dev].cqs--;
		c->children--;
	}
	unlock();
	if (rc)
		return rc;
	free(q->ring);
	free(q);
	live(K_CQ, -1);
	return 0;
}

int ibv_get_cq_event(struct abi_comp_channel *channel, struct abi_cq **cq, void **cookie)
{
	struct fcq *q;
	int rc = enter(F_GET_CQ_EVENT, (int)of(channel->context)->dev);
	if (rc) {
		errno = rc;
		return -1;
	}
	if (read(channel->fd, &q, sizeof(q)) != (ssize_t)sizeof(q))
		return -1;
	lock();
	q->unacked++;
	unlock();
	*cq = &q->cq;
	*cookie = q->cq.cq_context;
	return 0;
}

void ibv_ack_cq_events(struct abi_cq *cq, unsigned int n)
{
	lock();
	((struct fcq *)cq)->unacked -= (int)n;
	unlock();
}

int fake_req_notify_cq(struct abi_cq *cq, int solicited)
{
	(void)solicited;
	lock();
	int rc = enter_locked(F_REQ_NOTIFY_CQ, (int)of(cq->context)->dev);
	if (!rc)
		((struct fcq *)cq)->armed = 1;
	unlock();
	return rc;
}

int fake_poll_cq(struct abi_cq *cq, int n, struct abi_wc *wc)
{
	struct fcq *q = (struct fcq *)cq;
	lock();
	int rc = enter_locked(F_POLL_CQ, (int)of(cq->context)->dev);
	if (rc || q->overrun) {
		unlock();
		return rc ? -rc : -EIO;
	}
	int got = 0;
	while (got < n && q->head != q->tail)
		wc[got++] = q->ring[q->head++ % (uint32_t)cq->cqe];
	unlock();
	return got;
}

// clean takes the completions of a QP out of a queue.
void clean(struct fcq *q, uint32_t qpn)
{
	uint32_t size = (uint32_t)q->cq.cqe, to = q->head;
	for (uint32_t i = q->head; i != q->tail; i++)
		if (q->ring[i % size].qp_num != qpn)
			q->ring[to++ % size] = q->ring[i % size];
	q->tail = to;
	if (q->holding && q->held.qp_num == qpn)
		q->holding = 0;
}

static void push(struct fcq *q, const struct abi_wc *wc)
{
	if (q->tail - q->head >= (uint32_t)q->cq.cqe) {
		if (!q->overrun)
			post_event(of(q->cq.context), ABI_EVENT_CQ_ERR, 0, NULL);
		q->overrun = 1;
		return;
	}
	q->ring[q->tail++ % (uint32_t)q->cq.cqe] = *wc;
	if (!q->armed || !q->cq.channel)
		return;
	q->armed = 0;
	if (write(((struct fchannel *)q->cq.channel)->write_fd, &q, sizeof(q)) < 0)
		abort();
}

// complete ends the request at the head of the send queue.
void complete(struct fqp *qp, struct request *r, int status)
{
	struct fcq *q = (struct fcq *)qp->qp.send_cq;
	int action = r->fault.armed ? (int)r->fault.action : A_NONE;
	int tell = status != ABI_WC_SUCCESS || qp->sig_all || (r->wr.send_flags & ABI_SEND_SIGNALED);
	struct abi_wc wc = {
		.wr_id = r->wr.wr_id,
		.status = status,
		.opcode = r->wr.opcode == ABI_WR_RDMA_READ ? 2 : 1,
		.vendor_err = status == ABI_WC_SUCCESS ? 0 : 0x80 + (uint32_t)status,
		.byte_len = r->sge.length,
		.qp_num = qp->qp.qp_num,
	};
	free(r->inline_data);
	r->inline_data = NULL;
	qp->head++;
	w->requests++;
	if (status == ABI_WC_WR_FLUSH_ERR && w->device[qp->c->dev].lazy_flush)
		tell = qp->sig_all || (r->wr.send_flags & ABI_SEND_SIGNALED);
	if (!tell || action == A_DROP)
		return;
	if (action == A_GARBLE)
		wc.wr_id ^= r->fault.offset ? r->fault.offset : 0xdeadbeefcafef00dull;
	if (action == A_REORDER && !q->holding) {
		q->held = wc;
		q->holding = 1;
		return;
	}
	push(q, &wc);
	if (action == A_DUPLICATE)
		push(q, &wc);
	if (q->holding) {
		q->holding = 0;
		push(q, &q->held);
	}
}

// accept copies one request into the send queue. It returns 0 or an errno.
static int accept_wr(struct fqp *qp, const struct abi_send_wr *wr)
{
	if (qp->tail - qp->head >= qp->size)
		return ENOMEM;
	if (wr->num_sge > 1 || (wr->opcode != ABI_WR_RDMA_READ && wr->opcode != ABI_WR_RDMA_WRITE))
		return EINVAL;
	struct request *r = &qp->sq[qp->tail % qp->size];
	memset(r, 0, sizeof(*r));
	r->wr = *wr;
	r->wr.next = NULL;
	if (wr->num_sge)
		r->sge = *wr->sg_list;
	if (wr->send_flags & ABI_SEND_INLINE) {
		if (r->sge.length > qp->max_inline || wr->opcode != ABI_WR_RDMA_WRITE)
			return EINVAL;
		r->inline_data = malloc(r->sge.length + 1);
		memcpy(r->inline_data, (void *)(uintptr_t)r->sge.addr, r->sge.length);
	}
	qp->tail++;
	return 0;
}

int fake_post_send(struct abi_qp *ibqp, struct abi_send_wr *wr, struct abi_send_wr **bad)
{
	struct fqp *qp = (struct fqp *)ibqp;
	int dev = (int)qp->c->dev;
	lock();
	int rc = enter_locked(F_POST_SILENT, dev); // fails and does not say where
	if (rc) {
		unlock();
		return rc;
	}
	rc = enter_locked(F_POST_SEND, dev);
	uint32_t s = qp->shared->state;
	if (!rc && (s == ABI_QPS_RESET || s == ABI_QPS_INIT || s == ABI_QPS_RTR))
		rc = EINVAL;
	for (; wr && !rc; wr = wr->next) {
		rc = enter_locked(F_POST_WR, dev);
		if (!rc)
			rc = accept_wr(qp, wr);
		if (rc)
			break;
	}
	unlock();
	if (rc)
		*bad = wr;
	kick();
	return rc;
}
