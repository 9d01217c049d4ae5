// Declarations of what this package uses of the binary interface of libibverbs (symbol versions
// IBVERBS_1.0 to 1.12, 64 bit), so that it builds without the library's headers. abi_test.go
// compares every size, offset and value with those headers where they are installed.
#ifndef MOONCAKE_VERBS_ABI_H
#define MOONCAKE_VERBS_ABI_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#include "abi_values.h"

struct abi_device {
	void *ops[2];
	int32_t node_type;
	int32_t transport_type;
	char name[64];
	char dev_name[64];
	char dev_path[256];
	char ibdev_path[256];
};

union abi_gid {
	uint8_t raw[16];
	uint64_t align[2];
};

struct abi_gid_entry {
	union abi_gid gid;
	uint32_t gid_index;
	uint32_t port_num;
	uint32_t gid_type;
	uint32_t ndev_ifindex;
};

struct abi_device_attr {
	char fw_ver[64];
	uint64_t node_guid; // big endian
	uint64_t sys_image_guid;
	uint64_t max_mr_size;
	uint64_t page_size_cap;
	uint32_t vendor_id;
	uint32_t vendor_part_id;
	uint32_t hw_ver;
	int32_t max_qp;
	int32_t max_qp_wr;
	uint32_t device_cap_flags;
	int32_t max_sge;
	int32_t max_sge_rd;
	int32_t max_cq;
	int32_t max_cqe;
	int32_t max_mr;
	int32_t max_pd;
	int32_t max_qp_rd_atom;
	int32_t max_ee_rd_atom;
	int32_t max_res_rd_atom;
	int32_t max_qp_init_rd_atom;
	int32_t unused[16]; // max_ee_init_rd_atom to max_srq_sge
	uint16_t max_pkeys;
	uint8_t local_ca_ack_delay;
	uint8_t phys_port_cnt;
};

struct abi_port_attr {
	uint32_t state;
	uint32_t max_mtu;
	uint32_t active_mtu;
	int32_t gid_tbl_len;
	uint32_t port_cap_flags;
	uint32_t max_msg_sz;
	uint32_t bad_pkey_cntr;
	uint32_t qkey_viol_cntr;
	uint16_t pkey_tbl_len;
	uint16_t lid;
	uint16_t sm_lid;
	uint8_t lmc;
	uint8_t max_vl_num;
	uint8_t sm_sl;
	uint8_t subnet_timeout;
	uint8_t init_type_reply;
	uint8_t active_width;
	uint8_t active_speed;
	uint8_t phys_state;
	uint8_t link_layer;
	uint8_t flags;
	uint16_t port_cap_flags2;
	uint32_t active_speed_ex; // newer libraries only; 0 otherwise
};

struct abi_context;
struct abi_cq;
struct abi_qp;
struct abi_wc;
struct abi_send_wr;

struct abi_context {
	struct abi_device *device;
	struct {
		void *before_poll[11];
		int (*poll_cq)(struct abi_cq *, int, struct abi_wc *);
		int (*req_notify_cq)(struct abi_cq *, int);
		void *before_send[12];
		int (*post_send)(struct abi_qp *, struct abi_send_wr *, struct abi_send_wr **);
		void *post_recv;
		void *after_recv[5];
	} ops;
	int32_t cmd_fd;
	int32_t async_fd;
	int32_t num_comp_vectors;
	pthread_mutex_t mutex;
	void *abi_compat; // ABI_EXTENDED: part of a larger structure that begins before this one
};

#define ABI_EXTENDED ((void *)UINTPTR_MAX)
// Distances of members of the larger structure from its abi_context, downwards.
#define ABI_BACK_SZ 8u
#define ABI_BACK_QUERY_PORT 320u

struct abi_pd {
	struct abi_context *context;
	uint32_t handle;
};

struct abi_mr {
	struct abi_context *context;
	struct abi_pd *pd;
	void *addr;
	size_t length;
	uint32_t handle;
	uint32_t lkey;
	uint32_t rkey;
};

struct abi_comp_channel {
	struct abi_context *context;
	int32_t fd;
	int32_t refcnt;
};

struct abi_cq {
	struct abi_context *context;
	struct abi_comp_channel *channel;
	void *cq_context;
	uint32_t handle;
	int32_t cqe;
};

struct abi_qp {
	struct abi_context *context;
	void *qp_context;
	struct abi_pd *pd;
	struct abi_cq *send_cq;
	struct abi_cq *recv_cq;
	void *srq;
	uint32_t handle;
	uint32_t qp_num;
	int32_t state;
	int32_t qp_type;
};

struct abi_qp_cap {
	uint32_t max_send_wr;
	uint32_t max_recv_wr;
	uint32_t max_send_sge;
	uint32_t max_recv_sge;
	uint32_t max_inline_data;
};

struct abi_qp_init_attr {
	void *qp_context;
	struct abi_cq *send_cq;
	struct abi_cq *recv_cq;
	void *srq;
	struct abi_qp_cap cap;
	int32_t qp_type;
	int32_t sq_sig_all;
};

struct abi_ah_attr {
	union abi_gid dgid;
	uint32_t flow_label;
	uint8_t sgid_index;
	uint8_t hop_limit;
	uint8_t traffic_class;
	uint16_t dlid;
	uint8_t sl;
	uint8_t src_path_bits;
	uint8_t static_rate;
	uint8_t is_global;
	uint8_t port_num;
};

struct abi_qp_attr {
	int32_t qp_state;
	int32_t cur_qp_state;
	int32_t path_mtu;
	int32_t path_mig_state;
	uint32_t qkey;
	uint32_t rq_psn;
	uint32_t sq_psn;
	uint32_t dest_qp_num;
	uint32_t qp_access_flags;
	struct abi_qp_cap cap;
	struct abi_ah_attr ah_attr;
	struct abi_ah_attr alt_ah_attr;
	uint16_t pkey_index;
	uint16_t alt_pkey_index;
	uint8_t en_sqd_async_notify;
	uint8_t sq_draining;
	uint8_t max_rd_atomic;
	uint8_t max_dest_rd_atomic;
	uint8_t min_rnr_timer;
	uint8_t port_num;
	uint8_t timeout;
	uint8_t retry_cnt;
	uint8_t rnr_retry;
	uint8_t alt_port_num;
	uint8_t alt_timeout;
	uint32_t rate_limit;
};

struct abi_sge {
	uint64_t addr;
	uint32_t length;
	uint32_t lkey;
};

struct abi_send_wr {
	uint64_t wr_id;
	struct abi_send_wr *next;
	struct abi_sge *sg_list;
	int32_t num_sge;
	int32_t opcode;
	uint32_t send_flags;
	uint32_t imm_data;
	uint64_t remote_addr;
	uint32_t rkey;
	uint8_t unused[76]; // unions for other kinds of requests
};

struct abi_wc {
	uint64_t wr_id;
	int32_t status;
	int32_t opcode;
	uint32_t vendor_err;
	uint32_t byte_len;
	uint32_t imm_data;
	uint32_t qp_num;
	uint32_t src_qp;
	uint32_t wc_flags;
	uint16_t pkey_index;
	uint16_t slid;
	uint8_t sl;
	uint8_t dlid_path_bits;
};

struct abi_async_event {
	union {
		struct abi_cq *cq;
		struct abi_qp *qp;
		int32_t port_num;
	} element;
	int32_t event_type;
};

#endif
