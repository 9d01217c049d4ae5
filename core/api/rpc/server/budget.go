package server

import (
	"context"
	"fmt"

	"golang.org/x/sync/semaphore"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/mooncake-go/mooncake/core/api/mastercodec"
	"github.com/mooncake-go/mooncake/core/api/rpc"
	"github.com/mooncake-go/mooncake/core/api/rpc/convert"
	"github.com/mooncake-go/mooncake/core/internal/framed"
	"github.com/mooncake-go/mooncake/core/memory"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

const (
	// perByte is how many bytes of memory count for a byte of a large request: the request as it
	// was sent, its columns, and what the master makes of them and answers.
	perByte = 4
)

// budget bounds the memory of large requests, over both framings together. They wait in the order
// in which they came. It implements framed.Budget.
type budget struct {
	size    int64
	free    *semaphore.Weighted
	changed func(bytes int64)
	waited  func()
}

func newBudget(o Options) *budget {
	return &budget{size: o.MemoryBudget, free: semaphore.NewWeighted(o.MemoryBudget), changed: o.Memory, waited: o.MemoryWait}
}

// Acquire implements framed.Budget. The error is a status: InvalidParams for a request that does not
// fit at all, RPCFail where the memory was not free in time.
func (b *budget) Acquire(ctx context.Context, n int) error {
	need := int64(n) * perByte
	text := fmt.Sprintf("the request has %s, which counts as %s of memory", memory.Human(uint64(n)), memory.Human(uint64(need)))
	if need > b.size {
		return convert.StatusError(errs.WithHint(errs.New(errs.InvalidParams, "master: read a request",
			"%s; the master has %s for all large requests together", text, memory.Human(uint64(b.size))),
			"send fewer items at once, or raise --rpc_memory_budget of the master"))
	}
	if !b.free.TryAcquire(need) {
		b.waited()
		if err := b.free.Acquire(ctx, need); err != nil {
			return convert.StatusError(errs.WithHint(errs.New(errs.RPCFail, "master: read a request",
				"%s; other large requests held the %s that the master has for them until this one was given up", text, memory.Human(uint64(b.size))),
				"try again later, send fewer items at once, or raise --rpc_memory_budget of the master"))
		}
	}
	b.changed(need)
	return nil
}

// Release implements framed.Budget.
func (b *budget) Release(n int) {
	b.changed(int64(n) * -perByte)
	b.free.Release(int64(n) * perByte)
}

// mostFields bounds the fields of a large request: a batch has a key and a group for each item. A
// message of two bytes takes a hundred in memory, so that a request of nothing else would take many
// times what counts for it.
const mostFields = 4 * rpc.MaxItems

// codec refuses requests that would take much more memory than they count for.
type codec struct{ mastercodec.Codec }

// Decode implements lean.Codec.
func (c codec) Decode(b []byte, m proto.Message) error {
	if len(b) > framed.Uncounted && manyFields(b) {
		return fmt.Errorf("it has more than %d fields, which no batch has", mostFields)
	}
	return c.Codec.Decode(b, m)
}

func manyFields(b []byte) bool {
	for range mostFields {
		_, _, n := protowire.ConsumeField(b)
		if n < 0 || n == len(b) { // What cannot be read is for the codec to say.
			return false
		}
		b = b[n:]
	}
	return true
}
