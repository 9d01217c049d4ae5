//go:build cgo && linux && (amd64 || arm64 || loong64 || ppc64le || riscv64 || s390x)

#include "plane.h"

#include <errno.h>
#include <string.h>

static uint32_t outstanding(struct vb_qp *qp)
{
	return qp->tail - __atomic_load_n(&qp->head, __ATOMIC_ACQUIRE);
}

uint32_t vb_outstanding(struct vb_qp *qp)
{
	return outstanding(qp) - __atomic_load_n(&qp->silent, __ATOMIC_RELAXED);
}

// prepare fills in entry i of the chain for the request with sequence number seq.
static void prepare(struct vb_qp *qp, const struct vb_wr *w, int i, uint32_t seq, int signal)
{
	struct abi_send_wr *wr = &qp->wr[i];
	struct abi_sge *sge = &qp->sge[i];
	struct vb_sent *s = &qp->sent[seq & qp->mask];
	s->id = w->id;
	s->len = w->len;
	s->silent = 0;
	sge->addr = w->local;
	sge->length = w->len;
	sge->lkey = w->lkey;
	wr->wr_id = qp->base | seq;
	wr->next = wr + 1;
	wr->sg_list = sge;
	wr->num_sge = w->len ? 1 : 0;
	wr->opcode = w->op == VB_OP_READ ? ABI_WR_RDMA_READ : ABI_WR_RDMA_WRITE;
	wr->send_flags = signal ? ABI_SEND_SIGNALED : 0;
	if (w->op == VB_OP_WRITE && w->len && w->len <= qp->inline_max && !w->no_inline)
		wr->send_flags |= ABI_SEND_INLINE;
	wr->remote_addr = w->remote;
	wr->rkey = w->rkey;
}

// send hands n prepared entries to the device and returns how many it took.
static int send(struct vb_qp *qp, int n, int32_t *err)
{
	struct abi_send_wr *bad = NULL;
	qp->wr[n - 1].next = NULL;
	// Completions can come before post_send returns, so tail moves first.
	__atomic_store_n(&qp->tail, qp->tail + (uint32_t)n, __ATOMIC_RELEASE);
	errno = 0;
	int32_t rc = vb_errno(qp->qp->context->ops.post_send(qp->qp, qp->wr, &bad));
	if (!rc)
		return n;
	if (bad < qp->wr || bad >= qp->wr + n) {
		// The driver does not say what it took. It may execute all of it, so all of it is
		// accepted, and the error state makes it end.
		vb_to_err(qp);
		return n;
	}
	int took = (int)(bad - qp->wr);
	__atomic_store_n(&qp->tail, qp->tail - (uint32_t)(n - took), __ATOMIC_RELEASE);
	*err = rc;
	return took;
}

// cover makes sure that a signalled request follows the last one that was accepted: an empty
// write, for which the depth of the queue has one extra entry. If that fails too, the error
// state gives each request a completion.
static void cover(struct vb_qp *qp)
{
	struct vb_wr nop = {.op = VB_OP_WRITE};
	int32_t err = 0;
	if (qp->covered == qp->tail || outstanding(qp) > qp->depth)
		return;
	prepare(qp, &nop, 0, qp->tail, 1);
	qp->sent[qp->tail & qp->mask].silent = 1;
	__atomic_fetch_add(&qp->silent, 1, __ATOMIC_RELAXED);
	if (send(qp, 1, &err) == 1) {
		qp->covered = qp->tail;
		return;
	}
	__atomic_fetch_sub(&qp->silent, 1, __ATOMIC_RELAXED);
	vb_to_err(qp);
	qp->covered = qp->tail;
}

int vb_post(struct vb_qp *qp, const struct vb_wr *wrs, int n, int32_t *err)
{
	int done = 0;
	*err = 0;
	while (done < n && !*err) {
		int32_t space = (int32_t)(qp->depth - outstanding(qp));
		int chain = n - done < VB_CHAIN ? n - done : VB_CHAIN;
		if (chain > space)
			chain = space;
		if (chain <= 0)
			break;
		int last = done + chain == n || chain == space;
		uint32_t covered = qp->covered, first = qp->tail;
		int i = 0;
		for (; i < chain; i++) {
			const struct vb_wr *w = &wrs[done + i];
			if (w->op != VB_OP_WRITE && w->op != VB_OP_READ) {
				*err = EINVAL;
				break;
			}
			uint32_t seq = first + (uint32_t)i;
			int signal = (last && i == chain - 1) || seq + 1 - covered >= qp->every;
			if (signal)
				covered = seq + 1;
			prepare(qp, w, i, seq, signal);
		}
		int took = i ? send(qp, i, err) : 0;
		done += took;
		if (took == i)
			qp->covered = covered; // else its signals may be among what was refused
	}
	if (qp->covered != qp->tail)
		cover(qp);
	return done;
}
