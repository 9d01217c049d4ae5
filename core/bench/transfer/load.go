package transfer

import (
	"math/bits"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// The bounds of a Load.
const (
	MaxBatch   = 1 << 16
	MaxThreads = 1024
)

// Load is what a measurement does again and again.
type Load struct {
	// Kind is the direction, seen from this side.
	Kind transport.OpKind
	// Block is the size of a request in bytes, Batch the number of requests that are
	// submitted together, Threads how many submit at a time.
	Block          uint64
	Batch, Threads int
}

// Span is the memory in bytes that the load goes over on either side: every request under
// way has a block of its own.
func (l Load) Span() uint64 { return l.Block * uint64(l.Batch) * uint64(l.Threads) }

// Validate reports the first number that cannot work. InvalidParams.
func (l Load) Validate() error {
	bad := func(name string, got any, want string) error {
		return errs.New(errs.InvalidParams, "bench transfer", "%s is %v, must be %s", name, got, want)
	}
	switch {
	case l.Kind != transport.Read && l.Kind != transport.Write:
		return bad("the operation", l.Kind, "read or write")
	case l.Block == 0:
		return bad("the block size", l.Block, "above 0")
	case l.Batch < 1 || l.Batch > MaxBatch:
		return bad("the batch size", l.Batch, "1 to 65536")
	case l.Threads < 1 || l.Threads > MaxThreads:
		return bad("the number of threads", l.Threads, "1 to 1024")
	}
	over, span := bits.Mul64(l.Block, uint64(l.Batch)*uint64(l.Threads))
	if over != 0 || span > 1<<46 {
		return bad("block size x batch size x threads", "beyond 64 TiB", "memory that exists")
	}
	return nil
}

// offset is where in the memory the request i of a thread lies. Threads interleave, so
// that one batch goes over all of the memory.
func (l Load) offset(thread, i int) uint64 {
	return l.Block * (uint64(i)*uint64(l.Threads) + uint64(thread))
}

// KindName is "read" or "write".
func KindName(k transport.OpKind) string {
	if k == transport.Read {
		return "read"
	}
	return "write"
}

// ParseKind is the inverse of KindName. InvalidParams.
func ParseKind(text string) (transport.OpKind, error) {
	switch text {
	case "read":
		return transport.Read, nil
	case "write":
		return transport.Write, nil
	}
	return 0, errs.New(errs.InvalidParams, "bench transfer", "the operation %q is neither read nor write", text)
}
