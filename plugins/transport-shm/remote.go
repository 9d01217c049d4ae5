package shm

import (
	"errors"
	"os"
	"time"

	"github.com/mooncake-go/mooncake/plugins/transport-shm/internal/wire"
	"github.com/mooncake-go/mooncake/sdk/transport"
	"github.com/mooncake-go/mooncake/sdk/transport/pathkit"
	"github.com/mooncake-go/mooncake/sdk/x/crc32c"
	"golang.org/x/sys/unix"
)

// remoteState is where an imported region stands.
type remoteState uint8

const (
	remoteIdle      remoteState = iota // not mapped
	remoteAttaching                    // asked for, or to be asked for once there is a connection
	remoteReady                        // mapped
	remoteLeaving                      // to be unmapped once its copies ended
	remoteGone                         // the peer has withdrawn it, for good
)

// remote is an imported region. path.mu guards it.
type remote struct {
	key     wire.Key
	handle  uint64
	state   remoteState
	mapping []byte // what is mapped, whole pages
	mem     []byte // the region in it
	lead    int    // where in it the region begins
	touched touched
	running int  // chunks that workers copy now
	revoked bool // the peer takes it back: it is gone once it is unmapped
	waiting pathkit.Queue[op]
	// err is why the last attempt to map it failed, until not before; or why it is gone.
	err       error
	notBefore time.Time
}

// attachPause is how long operations on a region that could not be mapped fail at once.
const attachPause = time.Second

var errWithdrawn = errors.New("the peer has withdrawn the region")

// touchUnit is the part of a mapping for which it is remembered that it was touched, in bytes;
// smaller chunks just fault.
const touchUnit = 64 << 10

// touched is which units of a mapping were touched. The first touch of a page costs a fault, some
// 0.3 us for 4 KiB; asking the kernel for all pages of a chunk at once a quarter of it.
type touched []uint64

func newTouched(bytes int) touched { return make(touched, bytes/touchUnit/64+1) }

// first reports whether a unit of [from, to) was not touched before, and notes all of them.
func (t touched) first(from, to int) bool {
	if to-from < touchUnit {
		return false
	}
	was := true
	for u := from / touchUnit; u <= (to-1)/touchUnit; u++ {
		bit := uint64(1) << (u % 64)
		was = was && t[u/64]&bit != 0
		t[u/64] |= bit
	}
	return !was
}

// fault brings the pages of [from, to) of a mapping in. Pages that were never written come into
// being by it, as they would by the copy that follows. A kernel before 5.14 refuses, and the copy
// faults.
func fault(mapping []byte, from, to int) {
	from = from / os.Getpagesize() * os.Getpagesize()
	_ = unix.Madvise(mapping[from:to], unix.MADV_POPULATE_READ)
}

// op is an accepted operation. path.mu guards it, but for what belongs to the pool while it is
// queued.
type op struct {
	pathkit.Record
	path   *path
	remote *remote

	left    int              // bytes that are not settled yet
	err     error            // the first failure; nothing is copied after it
	waiting bool             // in remote.waiting
	link    pathkit.Link[op] // in the queue of the pool, or of remote.waiting

	// The pool's, under its lock.
	cut    int  // bytes of local that were given to workers
	step   int  // how many at a time
	queued bool // in the pool's queue
}

// chunk is a part of an operation that a worker copies.
type chunk struct {
	op          *op
	from, to    int
	dst, src    []byte // nil where there is nothing to copy any more
	untouched   []byte // the mapping, where this chunk of it is touched for the first time
	at          int    // where in the mapping the operation begins
	checksummed bool   // the bytes are checksummed as they are copied
	behind      int    // bytes of the operation after this chunk
	checksum    uint32 // of the chunk, shifted by them
	grains      transport.Grains
}

func (c *chunk) move() {
	switch {
	case c.grains.Sums != nil:
		crc32c.CopyGrains(c.grains.Sums, c.dst, c.src, c.grains.Lead, c.grains.Size)
		if c.checksummed {
			c.checksum = crc32c.Shift(crc32c.Sum(c.dst), uint64(c.behind))
		}
	case c.checksummed:
		c.checksum = crc32c.Shift(crc32c.Copy(c.dst, c.src), uint64(c.behind))
	default:
		copy(c.dst, c.src)
	}
}
