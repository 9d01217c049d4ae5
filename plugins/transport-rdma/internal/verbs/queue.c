//go:build cgo && linux && (amd64 || arm64 || loong64 || ppc64le || riscv64 || s390x)

#include "plane.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int32_t vb_create_cq(struct vb_lib *lib, struct abi_context *c, struct abi_comp_channel *ch, int entries, int vector, struct vb_cq **out)
{
	struct vb_cq *cq = calloc(1, sizeof(*cq));
	if (!cq)
		return ENOMEM;
	errno = 0;
	cq->lib = lib;
	cq->channel = ch;
	cq->gone_end = &cq->gone;
	cq->cq = lib->create_cq(c, entries, cq, ch, vector);
	if (!cq->cq) {
		int32_t rc = vb_errno(-1);
		free(cq);
		return rc;
	}
	*out = cq;
	return 0;
}

static void free_qp(struct vb_qp *qp)
{
	free(qp->sent);
	free(qp);
}

void vb_release(struct vb_cq *cq, struct vb_qp *qp)
{
	cq->slots[(qp->base >> 32) & 0xffff].qp = NULL;
	free_qp(qp);
}

int32_t vb_destroy_cq(struct vb_cq *cq)
{
	errno = 0;
	int32_t rc = vb_errno(cq->lib->destroy_cq(cq->cq));
	if (rc)
		return rc;
	while (cq->gone) {
		struct vb_qp *qp = cq->gone;
		cq->gone = qp->next_gone;
		free_qp(qp);
	}
	free(cq->slots);
	free(cq);
	return 0;
}

int32_t vb_arm(struct vb_cq *cq)
{
	errno = 0;
	return vb_errno(cq->cq->context->ops.req_notify_cq(cq->cq, 0));
}

int32_t vb_take_events(struct vb_cq *cq)
{
	unsigned int n = 0;
	int32_t rc = 0;
	for (;;) {
		struct abi_cq *which;
		void *cookie;
		errno = 0;
		if (cq->lib->get_cq_event(cq->channel, &which, &cookie) != 0) {
			if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)
				rc = vb_errno(-1);
			break;
		}
		n++;
	}
	if (n)
		cq->lib->ack_cq_events(cq->cq, n);
	return rc ? rc : n ? 0 : EAGAIN;
}

// find_slot returns a free slot, or -1.
static int find_slot(struct vb_cq *cq)
{
	for (uint32_t i = 0; i < cq->nslots; i++)
		if (!cq->slots[i].qp)
			return (int)i;
	if (cq->nslots > 0xffff)
		return -1;
	uint32_t n = cq->nslots ? cq->nslots * 2 : 16;
	struct vb_slot *s = realloc(cq->slots, n * sizeof(*s));
	if (!s)
		return -1;
	memset(s + cq->nslots, 0, (n - cq->nslots) * sizeof(*s));
	cq->slots = s;
	int first = (int)cq->nslots;
	cq->nslots = n;
	return first;
}

// every_of chooses how many requests share a completion: few enough that results come while most
// of the queue is still busy.
static uint32_t every_of(const struct vb_qp_config *cfg)
{
	uint32_t quarter = cfg->depth / 4 ? cfg->depth / 4 : 1;
	uint32_t every = cfg->every ? cfg->every : 16;
	return every < quarter || cfg->every ? every : quarter;
}

static struct vb_qp *new_qp(const struct vb_qp_config *cfg)
{
	struct vb_qp *qp = aligned_alloc(64, (sizeof(*qp) + 63) & ~(size_t)63);
	if (!qp)
		return NULL;
	memset(qp, 0, sizeof(*qp));
	uint32_t size = 1;
	while (size < cfg->depth + 1)
		size *= 2;
	qp->sent = calloc(size, sizeof(*qp->sent));
	if (!qp->sent) {
		free(qp);
		return NULL;
	}
	qp->mask = size - 1;
	qp->tag = cfg->tag;
	qp->depth = cfg->depth;
	qp->every = every_of(cfg);
	return qp;
}

// make asks the library, with less inline data where it refuses what was asked for.
static int32_t make(struct abi_pd *p, struct vb_cq *cq, const struct vb_qp_config *cfg, struct vb_qp *qp)
{
	struct abi_qp_init_attr a;
	uint32_t want = cfg->inline_max;
	for (;;) {
		memset(&a, 0, sizeof(a));
		a.qp_context = qp;
		a.send_cq = a.recv_cq = cq->cq;
		a.qp_type = ABI_QPT_RC;
		a.cap.max_send_wr = cfg->depth + 1;
		a.cap.max_recv_wr = 1;
		a.cap.max_send_sge = a.cap.max_recv_sge = 1;
		a.cap.max_inline_data = want;
		errno = 0;
		qp->qp = cq->lib->create_qp(p, &a);
		if (qp->qp)
			break;
		int32_t rc = vb_errno(-1);
		if (rc != EINVAL || !want)
			return rc;
		want = 0;
	}
	qp->num = qp->qp->qp_num;
	qp->inline_max = a.cap.max_inline_data < cfg->inline_max ? a.cap.max_inline_data : cfg->inline_max;
	return 0;
}

int32_t vb_create_qp(struct abi_pd *p, struct vb_cq *cq, const struct vb_qp_config *cfg, struct vb_qp **out)
{
	int slot = find_slot(cq);
	if (slot < 0)
		return ENOMEM;
	struct vb_qp *qp = new_qp(cfg);
	if (!qp)
		return ENOMEM;
	qp->cq = cq;
	int32_t rc = make(p, cq, cfg, qp);
	if (rc) {
		free_qp(qp);
		return rc;
	}
	qp->base = (uint64_t)++cq->slots[slot].generation << 48 | (uint64_t)slot << 32;
	cq->slots[slot].qp = qp;
	*out = qp;
	return 0;
}

uint64_t vb_qp_tag(struct abi_qp *qp)
{
	return ((struct vb_qp *)qp->qp_context)->tag;
}

int32_t vb_modify(struct vb_qp *qp, struct abi_qp_attr *a, int mask)
{
	errno = 0;
	return vb_errno(qp->cq->lib->modify_qp(qp->qp, a, mask));
}

int32_t vb_to_err(struct vb_qp *qp)
{
	struct abi_qp_attr a;
	memset(&a, 0, sizeof(a));
	a.qp_state = ABI_QPS_ERR;
	return vb_modify(qp, &a, ABI_QP_STATE);
}

int32_t vb_query_qp(struct vb_qp *qp, struct abi_qp_attr *a)
{
	struct abi_qp_init_attr init;
	memset(a, 0, sizeof(*a));
	memset(&init, 0, sizeof(init));
	errno = 0;
	int mask = ABI_QP_STATE | ABI_QP_PATH_MTU | ABI_QP_DEST_QPN | ABI_QP_TIMEOUT | ABI_QP_RETRY_CNT |
		   ABI_QP_MAX_QP_RD_ATOMIC | ABI_QP_MAX_DEST_RD_ATOMIC | ABI_QP_CAP;
	return vb_errno(qp->cq->lib->query_qp(qp->qp, a, mask, &init));
}

int32_t vb_destroy_qp(struct vb_qp *qp)
{
	errno = 0;
	int32_t rc = vb_errno(qp->cq->lib->destroy_qp(qp->qp));
	if (!rc)
		qp->qp = NULL;
	return rc;
}

void vb_retire_qp(struct vb_cq *cq, struct vb_qp *qp)
{
	qp->deadline = cq->polled + (uint64_t)cq->cq->cqe;
	*cq->gone_end = qp;
	cq->gone_end = &qp->next_gone;
}
