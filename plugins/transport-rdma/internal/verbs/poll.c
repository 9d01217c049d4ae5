//go:build cgo && linux && (amd64 || arm64 || loong64 || ppc64le || riscv64 || s390x)

#include "plane.h"

#include <errno.h>

// match returns the QP of a completion, or NULL for one that belongs to no request in flight.
static struct vb_qp *match(struct vb_cq *cq, const struct abi_wc *wc)
{
	uint32_t slot = (uint32_t)(wc->wr_id >> 32) & 0xffff;
	if (slot >= cq->nslots)
		return NULL;
	struct vb_qp *qp = cq->slots[slot].qp;
	if (!qp || (qp->base >> 32) != (wc->wr_id >> 32) || wc->qp_num != qp->num)
		return NULL;
	uint32_t ahead = (uint32_t)wc->wr_id - qp->head;
	uint32_t in_flight = __atomic_load_n(&qp->tail, __ATOMIC_ACQUIRE) - qp->head;
	return ahead < in_flight ? qp : NULL;
}

// begin makes a completion the current one. It ends its request and all before it on the QP:
//
//   - before the first error they succeeded, since errors complete even what is not signalled,
//     and in order;
//   - after it, or when the first error that shows is a flush, they count as flushed: that may
//     be said of one that succeeded, but never the other way round.
static void begin(struct vb_cq *cq, const struct abi_wc *wc)
{
	struct vb_qp *qp = match(cq, wc);
	if (!qp) {
		cq->strays++;
		return;
	}
	int ok = wc->status == ABI_WC_SUCCESS;
	cq->cur.qp = qp;
	cq->cur.upto = (uint32_t)wc->wr_id;
	cq->cur.status = (uint32_t)wc->status;
	cq->cur.vendor_err = ok ? 0 : wc->vendor_err;
	cq->cur.before = ABI_WC_SUCCESS;
	if (qp->failed || wc->status == ABI_WC_WR_FLUSH_ERR)
		cq->cur.before = ABI_WC_WR_FLUSH_ERR;
	if (!ok)
		qp->failed = 1;
}

// emit turns the current completion into results.
static int emit(struct vb_cq *cq, struct vb_result *out, int max)
{
	struct vb_qp *qp = cq->cur.qp;
	int n = 0;
	for (;;) {
		const struct vb_sent *s = &qp->sent[qp->head & qp->mask];
		int last = qp->head == cq->cur.upto;
		if (s->silent) {
			__atomic_fetch_sub(&qp->silent, 1, __ATOMIC_RELAXED);
		} else {
			if (n == max)
				return n;
			struct vb_result *r = &out[n++];
			r->id = s->id;
			r->tag = qp->tag;
			r->qp = qp->num;
			r->status = last ? cq->cur.status : cq->cur.before;
			r->vendor_err = last ? cq->cur.vendor_err : 0;
			r->len = r->status == ABI_WC_SUCCESS ? s->len : 0;
		}
		// Gives the entry of sent back to the poster.
		__atomic_store_n(&qp->head, qp->head + 1, __ATOMIC_RELEASE);
		if (last) {
			cq->cur.qp = NULL;
			return n;
		}
	}
}

// settle works on the first of the QPs that are gone: it is released once all its requests have
// results.
static void settle(struct vb_cq *cq)
{
	struct vb_qp *qp = cq->gone;
	if (qp->head != qp->tail) {
		cq->cur.qp = qp;
		cq->cur.upto = qp->tail - 1;
		cq->cur.status = cq->cur.before = VB_STATUS_CLOSED;
		cq->cur.vendor_err = 0;
		return;
	}
	cq->gone = qp->next_gone;
	if (!cq->gone)
		cq->gone_end = &cq->gone;
	vb_release(cq, qp);
}

int vb_poll(struct vb_cq *cq, struct vb_result *out, int max, int32_t *err)
{
	int n = 0;
	*err = 0;
	for (;;) {
		if (cq->cur.qp) {
			n += emit(cq, out + n, max - n);
			if (cq->cur.qp)
				return n;
		}
		if (cq->next < cq->count) {
			begin(cq, &cq->wc[cq->next++]);
			continue;
		}
		if (n == max)
			return n;
		// Completions of a QP that is gone may still lie in the queue, at most as many as it
		// has entries; they tell more than that it was closed.
		if (cq->gone && cq->gone->deadline <= cq->polled) {
			settle(cq);
			continue;
		}
		int got = cq->cq->context->ops.poll_cq(cq->cq, VB_BATCH, cq->wc);
		if (got < 0) {
			*err = got == -1 ? EIO : -got;
			return n;
		}
		cq->next = 0;
		cq->count = got;
		cq->polled += (uint64_t)got;
		if (got > 0)
			continue;
		if (!cq->gone)
			return n;
		settle(cq);
	}
}
