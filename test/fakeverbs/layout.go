package fakeverbs

// The types here have the layout of src/world.h. The library refuses a world of another size.

const (
	magic      = 0x46414b4556455242
	maxDevices = 8
	maxGIDs    = 16
	maxFuncs   = 40
	maxRules   = 64
	maxFaults  = 64
	maxProcs   = 16
	maxPairs   = 1024
	maxMRs     = 4096
	maxEvents  = 256
	kinds      = 8
)

// funcs are the names that FailCall and Calls take, in the order of enum func. modify_qp has one
// for each target state. post_wr counts requests: the one that fails is named by bad_wr.
// post_silent fails a post_send that does not say where.
var funcs = []string{
	"ibv_fork_init", "ibv_get_device_list", "ibv_open_device", "ibv_close_device", "ibv_query_device",
	"ibv_query_port", "ibv_query_gid", "ibv_query_gid_ex", "ibv_query_gid_table", "ibv_get_async_event",
	"ibv_alloc_pd", "ibv_dealloc_pd", "ibv_reg_mr", "ibv_reg_mr_iova2", "ibv_reg_dmabuf_mr", "ibv_dereg_mr",
	"ibv_create_comp_channel", "ibv_destroy_comp_channel", "ibv_create_cq", "ibv_destroy_cq", "ibv_get_cq_event",
	"ibv_req_notify_cq", "ibv_poll_cq", "ibv_create_qp", "ibv_destroy_qp", "ibv_query_qp", "ibv_modify_qp/INIT",
	"ibv_modify_qp/RTR", "ibv_modify_qp/RTS", "ibv_modify_qp/ERR", "ibv_post_send", "post_wr", "post_silent",
}

var kindNames = [kinds]string{"context", "pd", "mr", "channel", "cq", "qp", "device list", ""}

// GID is an entry of a port's table.
type GID struct {
	Addr [16]byte
	// Type is 0 for IB, 1 for RoCE v1, 2 for RoCE v2.
	Type    uint32
	IfIndex uint32
}

// Device is the description of a device; tests change it before it is opened, or with
// World.Change. MTUs are the library's enumeration: 1 is 256 bytes, 5 is 4096.
type Device struct {
	MaxMRSize uint64
	// Memlock is how many bytes may be registered, 0 for any number.
	Memlock                                                uint64
	MaxMR, MaxQP, MaxQPWR, MaxCQ, MaxCQE, MaxPD, MaxInline uint32
	MaxReads, Vectors, LinkLayer, State, ActiveMTU, MaxMTU uint32
	LID, Width, Speed                                      uint32
	// RetryMS is how long a request waits for a peer that does not answer.
	RetryMS uint32
	IWARP   uint32
	// CleanCQ is 1 for a device that forgets the completions of a QP that is destroyed.
	CleanCQ uint32
	// LazyFlush is 1 for a device that breaks the rule that errors complete every request: of
	// those that are flushed, only signalled ones have a completion.
	LazyFlush uint32
	GIDs      [maxGIDs]GID

	pinned             uint64
	mrs, qps, cqs, pds uint32
}

type rule struct {
	armed, fn   uint32
	device      int32
	skip, times uint32
	errno       int32
	hits, _     uint32
}

type fault struct {
	armed, action                              uint32
	device                                     int32
	qpn, opcode, skip, times, status, ms, hits uint32
	offset                                     uint64
}

type proc struct {
	pid  int32
	live [kinds]int32
	_    int32
}

type sharedQP struct {
	used, qpn, generation, device uint32
	pid                           int32
	state, dest, mtu, access, pd  uint32
	dgid                          [16]byte
}

type sharedMR struct {
	used, key, generation, device uint32
	pid                           int32
	pd, access, _                 uint32
	iova, size, at                uint64
}

type event struct{ device, typ, port, qpn uint32 }

type shared struct {
	magic, size          uint64
	devices, ready, kick uint32
	eventsWritten        uint32
	stallRelease, nextPD uint32
	nrules, nfaults      uint32
	calls                [maxFuncs]uint64
	requests, bytes      uint64
	events               [maxEvents]event
	rules                [maxRules]rule
	faults               [maxFaults]fault
	device               [maxDevices]Device
	procs                [maxProcs]proc
	qps                  [maxPairs]sharedQP
	mrs                  [maxMRs]sharedMR
	lock                 [64]byte
}
