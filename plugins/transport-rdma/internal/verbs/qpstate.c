//go:build cgo && linux && (amd64 || arm64 || loong64 || ppc64le || riscv64 || s390x)

#include "plane.h"

#include <errno.h>
#include <string.h>

uint64_t vb_qp_tag(struct abi_qp *qp)
{
	return ((struct vb_qp *)qp->qp_context)->tag;
}

static int32_t modify(struct vb_qp *qp, struct abi_qp_attr *a, int mask)
{
	errno = 0;
	return vb_errno(qp->cq->lib->modify_qp(qp->qp, a, mask));
}

int32_t vb_to_init(struct vb_qp *qp, uint8_t port, uint16_t pkey, uint32_t access)
{
	struct abi_qp_attr a;
	memset(&a, 0, sizeof(a));
	a.qp_state = ABI_QPS_INIT;
	a.port_num = port;
	a.pkey_index = pkey;
	a.qp_access_flags = access;
	return modify(qp, &a, ABI_QP_STATE | ABI_QP_PORT | ABI_QP_PKEY_INDEX | ABI_QP_ACCESS_FLAGS);
}

int32_t vb_to_rtr(struct vb_qp *qp, const struct vb_rtr *r)
{
	struct abi_qp_attr a;
	memset(&a, 0, sizeof(a));
	a.qp_state = ABI_QPS_RTR;
	a.path_mtu = (int32_t)r->mtu;
	a.dest_qp_num = r->qpn;
	a.rq_psn = r->psn;
	a.max_dest_rd_atomic = r->reads_in;
	a.min_rnr_timer = r->rnr_timer;
	memcpy(a.ah_attr.dgid.raw, r->gid, sizeof(r->gid));
	a.ah_attr.sgid_index = r->gid_index;
	a.ah_attr.hop_limit = r->hop_limit;
	a.ah_attr.traffic_class = r->traffic_class;
	a.ah_attr.dlid = r->lid;
	a.ah_attr.sl = r->sl;
	a.ah_attr.is_global = 1;
	a.ah_attr.port_num = r->port;
	return modify(qp, &a, ABI_QP_STATE | ABI_QP_AV | ABI_QP_PATH_MTU | ABI_QP_DEST_QPN | ABI_QP_RQ_PSN |
				      ABI_QP_MAX_DEST_RD_ATOMIC | ABI_QP_MIN_RNR_TIMER);
}

int32_t vb_to_rts(struct vb_qp *qp, const struct vb_rts *r)
{
	struct abi_qp_attr a;
	memset(&a, 0, sizeof(a));
	a.qp_state = ABI_QPS_RTS;
	a.sq_psn = r->psn;
	a.timeout = r->timeout;
	a.retry_cnt = r->retry;
	a.rnr_retry = r->rnr_retry;
	a.max_rd_atomic = r->reads_out;
	return modify(qp, &a, ABI_QP_STATE | ABI_QP_SQ_PSN | ABI_QP_TIMEOUT | ABI_QP_RETRY_CNT | ABI_QP_RNR_RETRY |
				      ABI_QP_MAX_QP_RD_ATOMIC);
}

int32_t vb_to_err(struct vb_qp *qp)
{
	struct abi_qp_attr a;
	memset(&a, 0, sizeof(a));
	a.qp_state = ABI_QPS_ERR;
	return modify(qp, &a, ABI_QP_STATE);
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
