// Package rail carries operations out. A rail is a device of this side and one of a peer, for all
// paths to that peer. It keeps the operations that wait, and has at most one connection at a time:
// queue pairs that are connected to the peer's.
//
// Rail.mu guards a rail, its connections and its operations. A function whose comment says nothing
// else is called with it held; unlock then completes what has ended.
package rail

import (
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/blob"
	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/cache"
	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/device"
	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/memory"
	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/verbs"
	"github.com/mooncake-go/mooncake/sdk/transport/pathkit"
)

// Rail is a device of this side and one of a peer, for all paths to that peer.
type Rail struct {
	env   *device.Env
	key   string // see Pool.Rail
	pool  *Pool
	Dev   *device.Device
	Name  string // for errors
	where string // the peer's first address
	// Remote is the peer's device, incarnation the peer's, server its name if it is one of
	// upstream. They are constant, whichever path or request came first.
	Remote      blob.Device
	incarnation uint64
	server      string
	users       int // paths and connections; guarded by Pool.mu

	load     atomic.Int64 // bytes that wait or are in flight
	paused   atomic.Int64 // until this time in Unix nanoseconds the rail is not up
	counters counters

	// make is held while a connection is made, so that both sides of a handshake with a node of
	// upstream find the same one. It is taken before mu.
	make sync.Mutex

	mu         sync.Mutex
	addrs      []string // where connections are set up; nil for unknown
	waiting    []*Queue // those that are not empty, in their turn
	ended      Ended    // operations for unlock
	conn       *Conn    // that work may be posted to, or that waits for the second round
	connecting *Conn    // of the attempt in progress, once it has queue pairs
	dialling   bool
	retrying   bool  // see retryLater
	failures   int   // in a row
	last       error // the latest
}

// counters is Stats while it counts.
type counters struct {
	read, written, requests, failures atomic.Uint64
	conns                             atomic.Int64
}

// Pool holds the rails of one device, and the connections that this side made. Safe for concurrent
// use.
type Pool struct {
	Dev *device.Device
	env *device.Env

	mu    sync.Mutex
	rails map[string]*Rail
	conns *cache.Set[*Conn]
}

// Queue holds the operations of one path that wait for one rail. Rails take from their queues in
// turns, so that a path with much to do does not hold up the others. Rail.mu guards what is not
// exported.
type Queue struct {
	Rail    *Rail
	Index   int // of the peer's device in keys
	ops     list
	waiting bool // in Rail.waiting
}

// opStage is where an accepted operation stands.
type opStage uint8

const (
	opQueued   opStage = iota // in its queue, with bytes that were not posted yet
	opPosted                  // all bytes were posted
	opUnproven                // failed; waits for the proof that nothing is stored any more
	opEnded                   // only the completion is left
)

// Path gets back operations that have ended.
type Path interface {
	sync.Locker
	// Finish completes o. The path is locked.
	Finish(o *Op)
}

// Op is an accepted operation. The fields above Err do not change before it ends; Rail.mu guards
// the others once the operation is in a queue.
type Op struct {
	pathkit.Record
	Addr   uint64 // of Local
	Region *memory.Region
	Key    *blob.Key
	Path   Path
	Queue  *Queue // nil for an operation that ends without a rail

	Err error // the first failure; nothing is posted after it
	// Indeterminate says that the peer may still store bytes of this Write.
	Indeterminate bool
	stage         opStage
	cut           uint64 // bytes posted so far
	inFlight      int    // work requests
	conn          *Conn  // that carries them
	redo          bool   // was flushed because of the fault of another operation
	tries         uint8  // how often it was begun again

	next, prev *Op // in a list
}

// list holds operations, each of which is in one list at most.
type list struct{ head, tail *Op }

// Ended collects operations that ended, to complete them once Rail.mu is free.
type Ended struct{ list }

// Conn is one connection of a rail: queue pairs that are connected to the peer's. Fields
// without a comment are guarded by Rail.mu.
type Conn struct {
	rail  *Rail
	pairs []*pair // constant
	// established says that the connection was ready once and may be evicted.
	established atomic.Bool
	// depth is the depth of the shallowest pair, slice the size of work requests. Constant.
	depth int
	slice uint64

	setup sync.Mutex // held while queue pairs change state
	over  bool       // nothing is connected any more; guarded by setup
	// peer is the queue pairs of a node of upstream, once connected. Written under setup.
	peer atomic.Pointer[[]uint32]

	ready    bool // work may be posted
	dying    bool
	clean    bool  // flushed operations may be done again
	cause    error // why it died
	inFlight int   // work requests
	next     int   // the pair to consider first
	used     time.Time
	// unproven are operations that failed, and that wait for the proof that nothing is stored
	// any more.
	unproven []*Op
	entry    *cache.Entry[*Conn] // in Pool.conns; guarded by Pool.mu

	lifeline net.Conn      // nil to a peer of upstream
	drained  chan struct{} // closed when dying and nothing is in flight
	peerGone chan struct{} // closed when the lifeline has ended; quiet is set before
	quiet    bool          // the peer has no queue pairs for this connection any more
	refused  bool          // the peer's device refused a request, and takes no more
	gone     chan struct{} // closed when nothing of it is left

	wrs [postBatch]verbs.WR
}

// pair is one queue pair of a connection. Its work requests in flight are a ring in the order of
// posting, guarded by Rail.mu.
type pair struct {
	*device.Pair
	conn  *Conn
	ring  []request // its length is a power of two
	head  uint64    // posted so far, the ID of the next work request
	tail  uint64    // ended so far
	bytes int64     // between them
}

// request is one work request: a range of an operation. result waits in it when it was fetched
// before the result of an earlier one, which another goroutine has.
type request struct {
	op      *Op
	size    int
	fetched bool
	result  verbs.Result
}

// postBatch is how many work requests are handed over at a time, and how many one queue
// gets in its turn.
const (
	postBatch = 32
	turn      = 8
)
