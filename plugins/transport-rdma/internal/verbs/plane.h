// The data plane: queues, posting and polling.
#ifndef MOONCAKE_VERBS_PLANE_H
#define MOONCAKE_VERBS_PLANE_H

#include "vb.h"

#define VB_CHAIN 32 // work requests in one call of the library
#define VB_BATCH 32 // completions in one call of the library

enum { VB_OP_WRITE = 1, VB_OP_READ = 2 };
enum { VB_STATUS_CLOSED = 256 };

// The Go types WR and Result.
struct vb_wr {
	uint64_t id;
	uint64_t local, remote;
	uint32_t lkey, rkey;
	uint32_t len;
	uint8_t op;
	uint8_t no_inline;
	uint8_t unused[2];
};

struct vb_result {
	uint64_t id;
	uint64_t tag;
	uint32_t qp;
	uint32_t status;
	uint32_t vendor_err;
	uint32_t len;
};

// vb_sent is what is remembered of a request until it has its result.
struct vb_sent {
	uint64_t id;
	uint32_t len;
	uint32_t silent; // not the caller's: it gets no result
};

// vb_qp is written by the poster (tail and what follows) and the poller (head and failed), which
// may be two threads.
struct vb_qp {
	struct vb_cq *cq;
	struct abi_qp *qp;
	uint64_t tag;
	uint64_t base; // the upper half of the wr_ids: slot and generation
	uint32_t num;
	uint32_t depth;      // the caller's requests in flight, at most
	uint32_t inline_max; // bytes
	uint32_t every;      // signal one in so many
	uint32_t mask;       // of sent
	struct vb_sent *sent;

	// Sequence numbers: requests from head to tail, exclusively, have no result yet.
	_Alignas(64) uint32_t head; // atomic
	uint32_t silent;            // atomic: of those, how many are silent
	int failed;                 // a completion with an error was seen

	_Alignas(64) uint32_t tail; // atomic
	uint32_t covered;           // requests before this one have a signalled one after them, or are it
	struct abi_send_wr wr[VB_CHAIN];
	struct abi_sge sge[VB_CHAIN];

	// For QPs that are gone but still have requests without a result; guarded like the CQ.
	struct vb_qp *next_gone;
	uint64_t deadline;
};

struct vb_slot {
	struct vb_qp *qp;
	uint16_t generation;
};

struct vb_cq {
	struct vb_lib *lib;
	struct abi_cq *cq;
	struct abi_comp_channel *channel;
	struct vb_slot *slots;
	uint32_t nslots;

	struct abi_wc wc[VB_BATCH];
	int next, count; // of wc: what was fetched but not yet looked at
	uint64_t polled; // completions fetched so far
	uint64_t strays; // completions that belong to no request

	// A completion that is being turned into results: those of cur from its head to upto.
	struct {
		struct vb_qp *qp;
		uint32_t upto;
		uint32_t before; // status of all but the last
		uint32_t status;
		uint32_t vendor_err;
	} cur;
	struct vb_qp *gone, **gone_end;
};

int32_t vb_create_cq(struct vb_lib *lib, struct abi_context *c, struct abi_comp_channel *ch, int entries, int vector, struct vb_cq **out);
int32_t vb_destroy_cq(struct vb_cq *cq);
int32_t vb_arm(struct vb_cq *cq);
// vb_take_events empties the channel; EAGAIN when it was empty. It may run beside vb_poll.
int32_t vb_take_events(struct vb_cq *cq);

struct vb_qp_config {
	uint64_t tag;
	uint32_t depth, inline_max, every;
};

// vb_create_qp and vb_retire_qp are called as the CQ's, the others as the QP's.
int32_t vb_create_qp(struct abi_pd *p, struct vb_cq *cq, const struct vb_qp_config *cfg, struct vb_qp **out);
int32_t vb_modify(struct vb_qp *qp, struct abi_qp_attr *a, int mask);
int32_t vb_to_err(struct vb_qp *qp);
int32_t vb_query_qp(struct vb_qp *qp, struct abi_qp_attr *a);
// vb_destroy_qp leaves the vb_qp, which belongs to the CQ after vb_retire_qp.
int32_t vb_destroy_qp(struct vb_qp *qp);
void vb_retire_qp(struct vb_cq *cq, struct vb_qp *qp);
void vb_release(struct vb_cq *cq, struct vb_qp *qp);

// vb_post returns how many requests were accepted, and why not more: ENOMEM or another errno, 0 for
// a full QP. vb_poll returns how many results it stored; fewer than max for an empty queue.
int vb_post(struct vb_qp *qp, const struct vb_wr *wrs, int n, int32_t *err);
int vb_poll(struct vb_cq *cq, struct vb_result *out, int max, int32_t *err);
uint32_t vb_outstanding(struct vb_qp *qp);

#endif
