package transfer

import (
	"time"

	"github.com/mooncake-go/mooncake/core/memory"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// remote is one range of the peer's memory that is usable on a path.
type remote struct {
	addr, length uint64
	key          string
	location     string
	id           transport.RemoteID
}

// op is one read or write of a path. While it is in flight it belongs to the reaper of its path,
// which hands it back through done.
type op struct {
	claim
	kind          transport.OpKind
	local         []byte
	staging       *memory.Buffer // moved instead of local, nil for none
	addr          uint64         // of the peer's memory
	remote        remote         // that holds all of it
	stall         time.Duration  // how long the path may move nothing; 0 where its transport cannot tell
	hasty, summed bool

	result transport.Completion
	// done has space for all ops that its receiver has in flight.
	done  chan<- *op
	owner any // whose op it is; the path does not look at it
}

// memory is what the transport touches: the caller's memory, or the staging buffer.
func (o *op) memory() []byte {
	if o.staging != nil {
		return o.staging.Bytes()
	}
	return o.local
}

// end hands the op back, once for each time it was in flight. It never blocks.
func (o *op) end(c transport.Completion) {
	o.result = c
	o.done <- o
}
