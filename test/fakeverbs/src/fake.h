// Private parts of the fake.
#ifndef FAKE_H
#define FAKE_H

#include "abi.h"
#include "world.h"

// CURRENT is for symbols that have other versions too (see versions.c): this is the one that
// programs of today are linked with.
#define CURRENT(name) __asm__(".symver " #name ", " #name "@IBVERBS_1.1")

// Objects begin with what the library's users see, with space for what they would see of it in the
// real one.
struct fcontext {
	union {
		uint8_t space[ABI_BACK_QUERY_PORT]; // the larger structure that grows downwards
		int (*query_port)(struct abi_context *, uint8_t, struct abi_port_attr *, size_t);
		size_t words[ABI_BACK_QUERY_PORT / 8];
	} before;
	struct abi_context ctx;
	struct fdevice *fdev;
	uint32_t dev;
	int async_write;
	struct abi_async_event queue[64]; // asynchronous events not yet fetched
	int queued;
	uint32_t events_seen;
	int stop;
	int children;
	pthread_t thread;
	struct fqp *qps;
};

struct fdevice {
	struct abi_device dev;
	uint32_t index;
	int refs;
};

struct fpd {
	struct abi_pd pd;
	uint32_t id;
	int children;
};

struct fmr {
	struct abi_mr mr;
	struct shared_mr *shared;
	void *map; // of a dma-buf
	size_t map_len;
};

struct fchannel {
	struct abi_comp_channel ch;
	int write_fd;
	int cqs;
};

struct fcq {
	struct abi_cq cq;
	uint8_t space[128];
	struct abi_wc *ring;
	uint32_t head, tail;
	struct abi_wc held; // by a reorder
	int holding;
	int armed, overrun;
	int qps;
	int unacked;
};

struct request {
	struct abi_send_wr wr;
	struct abi_sge sge;
	uint8_t *inline_data;
	uint64_t moved;
	int64_t not_before, since; // milliseconds
	uint32_t stall;
	int looked; // faults were looked up
	struct fault fault; // armed 0 for none
};

struct fqp {
	struct abi_qp qp;
	uint8_t space[128];
	struct fcontext *c;
	struct fqp *next;
	struct shared_qp *shared;
	struct request *sq;
	uint32_t size, head, tail;
	uint32_t max_inline;
	int sig_all;
	int unacked;
	struct abi_qp_attr attr;
	struct abi_qp_init_attr init;
};

extern struct world *w; // NULL when there is none

void lock(void);
void unlock(void);
void kick(void);
void live(enum kind k, int by);
// enter counts a call and returns the errno of a rule that fails it, or 0.
int enter(enum func f, int device);
int enter_locked(enum func f, int device);
int64_t now_ms(void);
int alive(int pid);

void *engine(void *context);
void flush(struct fqp *qp);
void complete(struct fqp *qp, struct request *r, int status);
void clean(struct fcq *q, uint32_t qpn);
void to_error(struct fqp *qp);
void post_event(struct fcontext *c, int type, uint32_t port, struct fqp *qp);
int copy(int pid, uint64_t remote, uint64_t local, uint64_t n, int write);

int fake_poll_cq(struct abi_cq *cq, int n, struct abi_wc *wc);
int fake_req_notify_cq(struct abi_cq *cq, int solicited);
int fake_post_send(struct abi_qp *qp, struct abi_send_wr *wr, struct abi_send_wr **bad);
int fake_query_port(struct abi_context *ctx, uint8_t port, struct abi_port_attr *a, size_t len);

#endif
