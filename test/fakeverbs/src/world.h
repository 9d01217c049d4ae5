// The world: what all processes that loaded one copy of the fake share, in a file mapped by them
// and by the test, which steers it. The Go side has the same layout (world.go).
#ifndef FAKE_WORLD_H
#define FAKE_WORLD_H

#include <pthread.h>
#include <stdint.h>

#define MAGIC 0x46414b4556455242ull
enum { DEVICES = 8, GIDS = 16, FUNCS = 40, RULES = 64, FAULTS = 64, PROCS = 16, QPS = 1024, MRS = 4096, EVENTS = 256 };

enum kind { K_CONTEXT, K_PD, K_MR, K_CHANNEL, K_CQ, K_QP, K_LIST, KINDS = 8 };

// Functions, in the order of the names in world.go.
enum func {
	F_FORK_INIT, F_GET_DEVICE_LIST, F_OPEN_DEVICE, F_CLOSE_DEVICE, F_QUERY_DEVICE, F_QUERY_PORT, F_QUERY_GID,
	F_QUERY_GID_EX, F_QUERY_GID_TABLE, F_GET_ASYNC_EVENT, F_ALLOC_PD, F_DEALLOC_PD, F_REG_MR, F_REG_MR_IOVA2,
	F_REG_DMABUF_MR, F_DEREG_MR, F_CREATE_COMP_CHANNEL, F_DESTROY_COMP_CHANNEL, F_CREATE_CQ, F_DESTROY_CQ,
	F_GET_CQ_EVENT, F_REQ_NOTIFY_CQ, F_POLL_CQ, F_CREATE_QP, F_DESTROY_QP, F_QUERY_QP, F_MODIFY_INIT,
	F_MODIFY_RTR, F_MODIFY_RTS, F_MODIFY_ERR, F_POST_SEND, F_POST_WR, F_POST_SILENT,
};

enum action {
	A_NONE, A_STATUS, A_DROP, A_DELAY, A_DUPLICATE, A_REORDER, A_GARBLE, A_FLIP, A_STALL, A_HALF,
};

struct gid {
	uint8_t addr[16];
	uint32_t type;
	uint32_t ifindex;
};

struct device {
	// Set by the test.
	uint64_t max_mr_size;
	uint64_t memlock; // bytes that may be registered, 0 for any number
	uint32_t max_mr, max_qp, max_qp_wr, max_cq, max_cqe, max_pd, max_inline, max_reads;
	uint32_t vectors;
	uint32_t link_layer;
	uint32_t state; // of the port
	uint32_t active_mtu, max_mtu; // enumeration
	uint32_t lid;
	uint32_t width, speed;
	uint32_t retry_ms; // how long a request waits for a peer that does not answer
	uint32_t iwarp;
	uint32_t clean_cq;   // a QP that is destroyed takes its completions along
	uint32_t lazy_flush; // only signalled requests have a completion when they are flushed
	struct gid gids[GIDS];
	// Kept by the fake.
	uint64_t pinned;
	uint32_t mrs, qps, cqs, pds;
};

// rule fails calls: the first skip calls that match pass, the next times fail.
struct rule {
	uint32_t armed;
	uint32_t func;
	int32_t device; // -1 for any
	uint32_t skip, times;
	int32_t error;
	uint32_t hits;
	uint32_t unused;
};

// fault changes requests or their completions.
struct fault {
	uint32_t armed;
	uint32_t action;
	int32_t device; // -1 for any
	uint32_t qpn;   // 0 for any
	uint32_t opcode; // 0 any, 1 write, 2 read
	uint32_t skip, times;
	uint32_t status;
	uint32_t ms;
	uint32_t hits;
	uint64_t offset;
};

struct proc {
	int32_t pid;
	int32_t live[KINDS];
	int32_t unused;
};

struct shared_qp {
	uint32_t used, qpn, generation, device;
	int32_t pid;
	uint32_t state, dest, mtu, access, pd;
	uint8_t dgid[16];
};

struct shared_mr {
	uint32_t used, key, generation, device;
	int32_t pid;
	uint32_t pd, access, unused;
	uint64_t iova, len;
	uint64_t at; // where the owner has it
};

struct event {
	uint32_t device, type, port, qpn;
};

struct world {
	uint64_t magic, size;
	uint32_t devices;
	uint32_t ready; // 0 new, 1 being made, 2 done: the lock
	uint32_t kick;  // futex: something happened
	uint32_t events_written;
	uint32_t stall_release; // stalls older than this are over
	uint32_t next_pd;
	uint32_t nrules, nfaults; // how many of each were ever armed
	uint64_t calls[FUNCS];
	uint64_t requests, bytes;
	struct event events[EVENTS];
	struct rule rules[RULES];
	struct fault faults[FAULTS];
	struct device device[DEVICES];
	struct proc procs[PROCS];
	struct shared_qp qps[QPS];
	struct shared_mr mrs[MRS];
	union {
		pthread_mutex_t lock;
		uint8_t space[64];
	};
};

#endif
