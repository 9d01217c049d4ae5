// The C side of the binding. Functions that return int32_t return 0 or a positive errno, unless
// they say otherwise. The Go side checks arguments, counts users of objects and locks: for one
// object, functions are not called at the same time, except where noted.
#ifndef MOONCAKE_VERBS_VB_H
#define MOONCAKE_VERBS_VB_H

#include "abi.h"

struct vb_lib {
	void *dl;
	struct vb_lib *next;

	int (*fork_init)(void);
	struct abi_device **(*get_device_list)(int *);
	void (*free_device_list)(struct abi_device **);
	struct abi_context *(*open_device)(struct abi_device *);
	int (*close_device)(struct abi_context *);
	int (*query_device)(struct abi_context *, struct abi_device_attr *);
	int (*query_port)(struct abi_context *, uint8_t, struct abi_port_attr *);
	int (*query_gid)(struct abi_context *, uint8_t, int, union abi_gid *);
	int (*get_async_event)(struct abi_context *, struct abi_async_event *);
	void (*ack_async_event)(struct abi_async_event *);
	struct abi_pd *(*alloc_pd)(struct abi_context *);
	int (*dealloc_pd)(struct abi_pd *);
	struct abi_mr *(*reg_mr)(struct abi_pd *, void *, size_t, int);
	int (*dereg_mr)(struct abi_mr *);
	struct abi_comp_channel *(*create_comp_channel)(struct abi_context *);
	int (*destroy_comp_channel)(struct abi_comp_channel *);
	struct abi_cq *(*create_cq)(struct abi_context *, int, void *, struct abi_comp_channel *, int);
	int (*destroy_cq)(struct abi_cq *);
	int (*get_cq_event)(struct abi_comp_channel *, struct abi_cq **, void **);
	void (*ack_cq_events)(struct abi_cq *, unsigned int);
	struct abi_qp *(*create_qp)(struct abi_pd *, struct abi_qp_init_attr *);
	int (*modify_qp)(struct abi_qp *, struct abi_qp_attr *, int);
	int (*query_qp)(struct abi_qp *, struct abi_qp_attr *, int, struct abi_qp_init_attr *);
	int (*destroy_qp)(struct abi_qp *);

	// NULL in old libraries.
	struct abi_mr *(*reg_mr_iova2)(struct abi_pd *, void *, size_t, uint64_t, unsigned int);
	struct abi_mr *(*reg_dmabuf_mr)(struct abi_pd *, uint64_t, size_t, uint64_t, int, int);
	int (*query_gid_ex)(struct abi_context *, uint32_t, uint32_t, struct abi_gid_entry *, uint32_t, size_t);
	int64_t (*query_gid_table)(struct abi_context *, struct abi_gid_entry *, size_t, uint32_t, size_t);
};

enum { VB_RELAXED = 1 << 0, VB_DMABUF = 1 << 1, VB_GID_TABLE = 1 << 2 };

// vb_load loads a library, or returns the one that is loaded from there already. On failure it
// returns NULL and the reason.
struct vb_lib *vb_load(const char *path, char *reason, size_t reason_size, uint32_t *features);
int32_t vb_errno(int rc); // what a call of the library that returned rc failed with

struct vb_event {
	uint64_t tag;
	uint32_t type;
	uint32_t port;
	uint32_t qp;
};

int32_t vb_fork_init(struct vb_lib *lib);
// vb_devices lists devices; NULL for none.
int32_t vb_devices(struct vb_lib *lib, struct abi_device ***list, int *n);
void vb_free_devices(struct vb_lib *lib, struct abi_device **list);
// vb_open is what vb_open_device found: also when it failed, as far as it came.
struct vb_open {
	struct abi_context *ctx;
	struct abi_device device;
	int listed; // the list of devices was read
};
int32_t vb_open_device(struct vb_lib *lib, const char *name, struct vb_open *o);
int32_t vb_close_device(struct vb_lib *lib, struct abi_context *c);
int32_t vb_query_device(struct vb_lib *lib, struct abi_context *c, struct abi_device_attr *a);
int32_t vb_query_port(struct vb_lib *lib, struct abi_context *c, uint8_t port, struct abi_port_attr *a);
int32_t vb_gid(struct vb_lib *lib, struct abi_context *c, uint8_t port, int index, union abi_gid *g);
// vb_gid_ex and vb_gid_table give EOPNOTSUPP where the library or the kernel cannot.
int32_t vb_gid_ex(struct vb_lib *lib, struct abi_context *c, uint32_t port, uint32_t index, struct abi_gid_entry *e);
int32_t vb_gid_table(struct vb_lib *lib, struct abi_context *c, struct abi_gid_entry *e, size_t max, size_t *n);
// vb_next_event gives EAGAIN for none. The event is acknowledged.
int32_t vb_next_event(struct vb_lib *lib, struct abi_context *c, struct vb_event *ev);
uint64_t vb_qp_tag(struct abi_qp *qp);

int32_t vb_alloc_pd(struct vb_lib *lib, struct abi_context *c, struct abi_pd **out);
int32_t vb_dealloc_pd(struct vb_lib *lib, struct abi_pd *p);
int32_t vb_reg_mr(struct vb_lib *lib, struct abi_pd *p, uint64_t addr, uint64_t len, uint32_t access, struct abi_mr **out);
int32_t vb_reg_dmabuf(struct vb_lib *lib, struct abi_pd *p, uint64_t offset, uint64_t len, uint64_t iova, int fd, uint32_t access, struct abi_mr **out);
int32_t vb_dereg_mr(struct vb_lib *lib, struct abi_mr *m);
int32_t vb_create_channel(struct vb_lib *lib, struct abi_context *c, struct abi_comp_channel **out);
int32_t vb_destroy_channel(struct vb_lib *lib, struct abi_comp_channel *ch);

#endif
