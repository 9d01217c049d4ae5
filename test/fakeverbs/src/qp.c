#define _GNU_SOURCE
#include "fake.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

CURRENT(ibv_create_qp);

static struct shared_qp *free_slot(uint32_t *index)
{
	for (uint32_t i = 1; i < QPS; i++) {
		struct shared_qp *s = &w->qps[i];
		if (s->used && alive(s->pid))
			continue;
		uint32_t generation = (s->generation + 1) & 0x3fff;
		memset(s, 0, sizeof(*s));
		s->generation = generation;
		*index = i;
		return s;
	}
	return NULL;
}

struct abi_qp *ibv_create_qp(struct abi_pd *pd, struct abi_qp_init_attr *a)
{
	struct fcq *cq = (struct fcq *)a->send_cq;
	struct fcontext *c = (struct fcontext *)((char *)pd->context - offsetof(struct fcontext, ctx));
	struct device *d = &w->device[c->dev];
	struct shared_qp *s = NULL;
	uint32_t index = 0;
	lock();
	int rc = enter_locked(F_CREATE_QP, (int)c->dev);
	if (!rc && (a->qp_type != ABI_QPT_RC || a->cap.max_send_wr < 1 || a->cap.max_send_wr > d->max_qp_wr ||
		    a->cap.max_send_sge > 1 || a->cap.max_inline_data > d->max_inline || cq->cq.context != pd->context))
		rc = EINVAL;
	if (!rc && (d->qps >= d->max_qp || !(s = free_slot(&index))))
		rc = ENOMEM;
	if (rc) {
		unlock();
		errno = rc;
		return NULL;
	}
	struct fqp *qp = calloc(1, sizeof(*qp));
	s->used = 1;
	s->qpn = s->generation << 10 | index;
	s->device = c->dev;
	s->pid = getpid();
	s->pd = ((struct fpd *)pd)->id;
	qp->c = c;
	qp->shared = s;
	qp->size = a->cap.max_send_wr;
	qp->sq = calloc(qp->size, sizeof(*qp->sq));
	qp->max_inline = a->cap.max_inline_data = d->max_inline;
	qp->sig_all = a->sq_sig_all;
	qp->init = *a;
	qp->qp.context = pd->context;
	qp->qp.qp_context = a->qp_context;
	qp->qp.pd = pd;
	qp->qp.send_cq = a->send_cq;
	qp->qp.recv_cq = a->recv_cq;
	qp->qp.qp_num = s->qpn;
	qp->qp.qp_type = a->qp_type;
	qp->next = c->qps;
	c->qps = qp;
	cq->qps++;
	((struct fpd *)pd)->children++;
	d->qps++;
	unlock();
	live(K_QP, 1);
	return &qp->qp;
}

// forget takes those events of a QP that were not fetched out of the queue.
static void forget(struct fcontext *c, struct fqp *qp)
{
	int n = 0;
	for (int i = 0; i < c->queued; i++)
		if (c->queue[i].element.qp != &qp->qp || c->queue[i].event_type == ABI_EVENT_CQ_ERR)
			c->queue[n++] = c->queue[i];
	c->queued = n;
}

int ibv_destroy_qp(struct abi_qp *ibqp)
{
	struct fqp *qp = (struct fqp *)ibqp;
	struct fcontext *c = qp->c;
	lock();
	int rc = enter_locked(F_DESTROY_QP, (int)c->dev);
	if (rc) {
		unlock();
		return rc;
	}
	forget(c, qp);
	while (qp->unacked) { // as the library: until its events are acknowledged
		unlock();
		usleep(500);
		lock();
	}
	for (struct fqp **p = &c->qps; *p; p = &(*p)->next) {
		if (*p == qp) {
			*p = qp->next;
			break;
		}
	}
	for (; qp->head != qp->tail; qp->head++)
		free(qp->sq[qp->head % qp->size].inline_data);
	if (w->device[c->dev].clean_cq)
		clean((struct fcq *)ibqp->send_cq, ibqp->qp_num);
	qp->shared->used = 0;
	((struct fcq *)ibqp->send_cq)->qps--;
	((struct fpd *)ibqp->pd)->children--;
	w->device[c->dev].qps--;
	unlock();
	free(qp->sq);
	free(qp);
	live(K_QP, -1);
	return 0;
}

static int has(int mask, int need) { return (mask & need) == need; }

static int to_init(struct fqp *qp, const struct abi_qp_attr *a, int mask)
{
	if (!has(mask, ABI_QP_PKEY_INDEX | ABI_QP_PORT | ABI_QP_ACCESS_FLAGS) || a->port_num != 1 || a->pkey_index != 0)
		return EINVAL;
	qp->shared->access = a->qp_access_flags;
	return 0;
}

static int to_rtr(struct fqp *qp, const struct abi_qp_attr *a, int mask)
{
	static const uint8_t zero[16];
	const struct device *d = &w->device[qp->c->dev];
	if (!has(mask, ABI_QP_AV | ABI_QP_PATH_MTU | ABI_QP_DEST_QPN | ABI_QP_RQ_PSN | ABI_QP_MAX_DEST_RD_ATOMIC |
			       ABI_QP_MIN_RNR_TIMER))
		return EINVAL;
	if (a->path_mtu < 1 || (uint32_t)a->path_mtu > d->max_mtu || a->max_dest_rd_atomic > d->max_reads)
		return EINVAL;
	if (!a->ah_attr.is_global || a->ah_attr.port_num != 1 || a->ah_attr.sgid_index >= GIDS ||
	    memcmp(d->gids[a->ah_attr.sgid_index].addr, zero, 16) == 0 || memcmp(a->ah_attr.dgid.raw, zero, 16) == 0)
		return EINVAL;
	qp->shared->dest = a->dest_qp_num;
	qp->shared->mtu = (uint32_t)a->path_mtu;
	memcpy(qp->shared->dgid, a->ah_attr.dgid.raw, 16);
	qp->attr.path_mtu = a->path_mtu;
	qp->attr.dest_qp_num = a->dest_qp_num;
	qp->attr.max_dest_rd_atomic = a->max_dest_rd_atomic;
	return 0;
}

static int to_rts(struct fqp *qp, const struct abi_qp_attr *a, int mask)
{
	if (!has(mask, ABI_QP_TIMEOUT | ABI_QP_RETRY_CNT | ABI_QP_RNR_RETRY | ABI_QP_SQ_PSN | ABI_QP_MAX_QP_RD_ATOMIC))
		return EINVAL;
	if (a->timeout > 31 || a->retry_cnt > 7 || a->rnr_retry > 7 || a->max_rd_atomic > w->device[qp->c->dev].max_reads)
		return EINVAL;
	qp->attr.timeout = a->timeout;
	qp->attr.retry_cnt = a->retry_cnt;
	qp->attr.max_rd_atomic = a->max_rd_atomic;
	return 0;
}

int ibv_modify_qp(struct abi_qp *ibqp, struct abi_qp_attr *a, int mask)
{
	struct fqp *qp = (struct fqp *)ibqp;
	int dev = (int)qp->c->dev, rc = EINVAL;
	if (!(mask & ABI_QP_STATE))
		return EINVAL;
	lock();
	uint32_t from = qp->shared->state, to = (uint32_t)a->qp_state;
	if (to == ABI_QPS_INIT) {
		rc = enter_locked(F_MODIFY_INIT, dev);
		if (!rc)
			rc = from == ABI_QPS_RESET || from == ABI_QPS_INIT ? to_init(qp, a, mask) : EINVAL;
	} else if (to == ABI_QPS_RTR) {
		rc = enter_locked(F_MODIFY_RTR, dev);
		if (!rc)
			rc = from == ABI_QPS_INIT ? to_rtr(qp, a, mask) : EINVAL;
	} else if (to == ABI_QPS_RTS) {
		rc = enter_locked(F_MODIFY_RTS, dev);
		if (!rc)
			rc = from == ABI_QPS_RTR ? to_rts(qp, a, mask) : EINVAL;
	} else if (to == ABI_QPS_ERR) {
		rc = enter_locked(F_MODIFY_ERR, dev);
		if (!rc && from == ABI_QPS_RESET)
			rc = EINVAL;
	}
	if (!rc) {
		qp->shared->state = to;
		ibqp->state = (int32_t)to;
	}
	unlock();
	kick();
	return rc;
}

int ibv_query_qp(struct abi_qp *ibqp, struct abi_qp_attr *a, int mask, struct abi_qp_init_attr *init)
{
	struct fqp *qp = (struct fqp *)ibqp;
	(void)mask;
	lock();
	int rc = enter_locked(F_QUERY_QP, (int)qp->c->dev);
	*a = qp->attr;
	a->qp_state = (int32_t)qp->shared->state;
	a->qp_access_flags = qp->shared->access;
	a->cap = qp->init.cap;
	*init = qp->init;
	unlock();
	return rc;
}
