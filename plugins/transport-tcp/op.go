package tcp

import (
	"github.com/mooncake-go/mooncake/plugins/transport-tcp/internal/frame"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport/pathkit"
)

// op is an accepted operation. All fields are guarded by path.mu.
type op struct {
	pathkit.Record
	link pathkit.Link[op] // in path.queue, while it has bytes that were not made into chunks yet
	key  *frame.Key

	cut           int      // bytes of local that were made into chunks so far
	chunks        []*chunk // chunks in flight
	err           error    // the first failure; no chunks are cut after it
	indeterminate bool     // the peer may still store bytes of this Write
	// patient: it failed, and waits for the outcome of its other chunks, so that they are not
	// indeterminate as well.
	patient bool
}

// chunkState tells which goroutine uses the memory of a chunk.
type chunkState uint8

const (
	chunkWaiting   chunkState = iota // none: the request is sent, the answer has not arrived
	chunkSending                     // the connection's writer: it sends the payload of a Write
	chunkReceiving                   // the connection's reader: it stores the payload of a Read
)

// stage says how far the request of a chunk is.
type stage uint8

const (
	stageShared stage = iota // on a connection that may be used again; a WRITE is followed by a READ of its last byte
	stageAlone               // on a connection of its own
	stageProof               // the WRITE has ended, and its last byte is read on a connection of its own
)

// chunk is one request on one connection: a slice of an op. All fields are guarded by path.mu,
// except that the goroutine that state names may use buf.
type chunk struct {
	op    *op // nil once detached: the answer is awaited only to be thrown away
	conn  *connection
	id    uint64
	buf   []byte
	write bool
	size  int
	at    uint64 // of the operation's memory at the peer
	state chunkState
	stage stage
	index int // place in op.chunks
	// answered and answer hold an answer that arrived while the chunk was chunkSending.
	answered bool
	answer   error
	// cancelled asks the reader to stop storing.
	cancelled bool
}

// detach takes a chunk from its operation, which no longer waits for it.
func (ch *chunk) detach() {
	o := ch.op
	last := len(o.chunks) - 1
	o.chunks[ch.index] = o.chunks[last]
	o.chunks[ch.index].index = ch.index
	o.chunks[last] = nil
	o.chunks = o.chunks[:last]
	ch.op, ch.buf = nil, nil
}

// proof compares the last byte of a WRITE with what the peer has there.
func (ch *chunk) proof(last byte) error {
	if ch.op == nil || last == ch.buf[ch.size-1] {
		return nil
	}
	return errs.New(errs.TransferFail, "transport/tcp: write to a peer of upstream", "the peer took all bytes and has others at the last address: another writer is using its memory, or the buffer is not there any more")
}
