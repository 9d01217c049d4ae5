package path

import (
	"time"

	"github.com/mooncake-go/mooncake/core/memory"
	"github.com/mooncake-go/mooncake/core/transfer/rail"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// remote is one range of the peer's memory that is usable on a path.
type remote struct {
	Addr, Length uint64
	key          string
	Location     string
	id           transport.RemoteID
}

// Op is one read or write of a path. While it is in flight it belongs to the reaper of its path,
// which hands it back through Done.
type Op struct {
	rail.Claim
	Kind          transport.OpKind
	Local         []byte
	Staging       *memory.Buffer // moved instead of local, nil for none
	Addr          uint64         // of the peer's memory
	Remote        remote         // that holds all of it
	Stall         time.Duration  // how long the path may move nothing; 0 where its transport cannot tell
	Hasty, Summed bool

	Result transport.Completion
	// Done has space for all ops that its receiver has in flight.
	Done  chan<- *Op
	Owner any // whose op it is; opaque to the path
}

// memory is what the transport touches: the caller's memory, or the staging buffer.
func (o *Op) memory() []byte {
	if o.Staging != nil {
		return o.Staging.Bytes()
	}
	return o.Local
}

// end hands the op back, once for each time it was in flight. It never blocks.
func (o *Op) end(c transport.Completion) {
	o.Result = c
	o.Done <- o
}
