/*
 * The transfer engine for programs in C: names, structures and numbers are those of the
 * header of the same name of the reference implementation, so that what was built against
 * that one runs with libmooncake.so.
 *
 * Texts and arrays are the caller's and are not used after a function returned. Memory that
 * takes part in a transfer is used until the transfer is in a terminal state. Every function
 * may be called from any thread, every wait is bounded. NULL for an engine, or an engine that
 * was destroyed, is an error and never a crash. Why a call failed is written to standard
 * error.
 *
 * Functions about transfers return 0 or a positive number, the others 0 or a negative one:
 *   1 invalid argument          2 too many requests     3 address not registered
 *   4 batch busy                7 address overlaps      8 no such transport
 *   200 metadata service        201 peer                202 anything else
 */
#ifndef TRANSFER_ENGINE_C
#define TRANSFER_ENGINE_C

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef void *transfer_engine_t;
typedef void *transport_t;

#define segment_handle_t int32_t
#define segment_id_t int32_t
#define batch_id_t uint64_t

#define LOCAL_SEGMENT (0)
#define INVALID_BATCH UINT64_MAX

#define OPCODE_READ (0)  /* from the segment to source */
#define OPCODE_WRITE (1) /* from source to the segment */

struct transfer_request {
  int opcode;
  void *source; /* memory of this process */
  segment_id_t target_id;
  uint64_t target_offset; /* an address of the process that the segment is */
  uint64_t length;
};
typedef struct transfer_request transfer_request_t;

/* Both end with a 0. */
struct notify_msg {
  char *name;
  char *msg;
};
typedef struct notify_msg notify_msg_t;

/* A transfer is WAITING, then COMPLETED or FAILED. The other numbers are never reported, also
 * where time ran out: many programs take them for success. */
#define STATUS_WAITING (0)
#define STATUS_PENDING (1)
#define STATUS_INVALID (2)
#define STATUS_CANCELED (3)
#define STATUS_COMPLETED (4)
#define STATUS_TIMEOUT (5)
#define STATUS_FAILED (6)

struct transfer_status {
  int status;
  uint64_t transferred_bytes;
};
typedef struct transfer_status transfer_status_t;

struct buffer_entry {
  void *addr;
  size_t length;
};
typedef struct buffer_entry buffer_entry_t;

struct nic_load_stat {
  char device_name[64];
  uint64_t inflight_bytes;
  double ewma_bandwidth_bps; /* bytes per second */
};
typedef struct nic_load_stat nic_load_stat_t;

/* --- engine ---------------------------------------------------------------------------- */

/* metadata_conn_string is P2PHANDSHAKE, http://host:port/metadata, etcd://host:port,
 * redis://host:port, or host:port, which is etcd. local_server_name is where peers reach this
 * process; with P2PHANDSHAKE its port is replaced, see getLocalIpAndPort. ip_or_host_name and
 * rpc_port have no effect. With auto_discover the transports that this machine has are
 * installed; else installTransport does that, or the first call that needs one. NULL on an
 * error. */
transfer_engine_t createTransferEngine(const char *metadata_conn_string, const char *local_server_name, const char *ip_or_host_name,
                                       uint64_t rpc_port, int auto_discover);
/* Ends the engine. Memory can be freed then. */
void destroyTransferEngine(transfer_engine_t engine);
int discoverTopology(transfer_engine_t engine);
/* The name under which peers open this process, cut off where buf_len is too small. */
int getLocalIpAndPort(transfer_engine_t engine, char *buf_out, size_t buf_len);

/* proto is "tcp", "rdma" or "shm". args is NULL, or its first element the topology as JSON:
 * {"cpu:0": [["mlx5_0"], ["mlx5_1"]]}. Memory that is registered is registered with the
 * transport as well. NULL where there is no such transport, where it cannot start on this
 * machine, and while there are batches; the others stay then. What is returned is not to be
 * freed. */
transport_t installTransport(transfer_engine_t engine, const char *proto, void **args);
/* Has no effect: transports end with their engine. */
int uninstallTransport(transfer_engine_t engine, const char *proto);

/* Ends the engine when the process gets SIGTERM or SIGINT, which then take the effect that
 * they have without. */
void enableGracefulShutdown(transfer_engine_t engine);

/* --- segments -------------------------------------------------------------------------- */

/* A number from 1 on, LOCAL_SEGMENT for the own name, negative where no such peer answers. A
 * slash before the name does not count. Known names are not looked up again. */
segment_id_t openSegment(transfer_engine_t engine, const char *segment_name);
segment_id_t openSegmentNoCache(transfer_engine_t engine, const char *segment_name); /* looks it up in any case */
int closeSegment(transfer_engine_t engine, segment_id_t segment_id);                 /* has no effect */
int removeLocalSegment(transfer_engine_t engine, const char *segment_name);          /* forgets the name; its number stays valid */
int syncSegmentCache(transfer_engine_t engine);                                      /* looks all known peers up again */
int warmupEfaSegment(transfer_engine_t engine, const char *segment_name);            /* has no effect: there is no EFA */

/* --- memory ---------------------------------------------------------------------------- */

/* location is where the memory lives, "cpu:0" or "cuda:1", or "*". Memory of which a part is
 * registered already is refused. */
int registerLocalMemory(transfer_engine_t engine, void *addr, size_t length, const char *location, int remote_accessible);
int unregisterLocalMemory(transfer_engine_t engine, void *addr);
/* All or none, open to peers. */
int registerLocalMemoryBatch(transfer_engine_t engine, buffer_entry_t *buffer_list, size_t buffer_len, const char *location);
int unregisterLocalMemoryBatch(transfer_engine_t engine, void **addr_list, size_t addr_len);

/* --- transfers ------------------------------------------------------------------------- */

/* INVALID_BATCH on an error. */
batch_id_t allocateBatchID(transfer_engine_t engine, size_t batch_size);
/* Starts all or none. Over all calls for a batch the requests are counted from 0: that is
 * their task_id. A request ends at the latest after MC_TRANSFER_TIMEOUT (30 s) and 1 ns for
 * each byte of the call. */
int submitTransfer(transfer_engine_t engine, batch_id_t batch_id, struct transfer_request *entries, size_t count);
/* The message goes to the segment of the first request when all of the batch is completed. */
int submitTransferWithNotify(transfer_engine_t engine, batch_id_t batch_id, struct transfer_request *entries, size_t count,
                             notify_msg_t notify_msg);
int getTransferStatus(transfer_engine_t engine, batch_id_t batch_id, size_t task_id, struct transfer_status *status);
/* 4 while a transfer is neither completed nor failed. */
int freeBatchID(transfer_engine_t engine, batch_id_t batch_id);

/* --- messages -------------------------------------------------------------------------- */

/* What arrived since the last call: *size messages, for freeNotifsMsgBuf; NULL without any. */
notify_msg_t *getNotifsFromEngine(transfer_engine_t engine, int *size);
int freeNotifsMsgBuf(notify_msg_t *msg, int size);
int genNotifyInEngine(transfer_engine_t engine, uint64_t target_id, notify_msg_t notify_msg);

/* --- what is going on ------------------------------------------------------------------ */

/* Fills at most *count entries and sets *count to how many there are. */
int getNicLoadStats(transfer_engine_t engine, nic_load_stat_t *stats, size_t *count);
/* The devices of this machine, the topology, and the paths to peers, as text or as JSON,
 * {"local_nics": [...], "topology": {...}, "links": [...]}, cut off where buf_len is too
 * small. */
int showLinks(transfer_engine_t engine, char *buf_out, size_t buf_len, int json);

#ifdef __cplusplus
}
#endif

#endif
