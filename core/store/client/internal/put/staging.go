package put

import (
	"context"
	"sync"

	"github.com/mooncake-go/mooncake/core/memory"
	"github.com/mooncake-go/mooncake/core/sealkeys"
	"github.com/mooncake-go/mooncake/core/store/client/internal/base"
	"github.com/mooncake-go/mooncake/core/store/internal/seal"
	"github.com/mooncake-go/mooncake/core/transfer"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// sealing is what a call needs to seal.
type sealing struct {
	key   sealkeys.Key
	space []byte // staging memory that is not used yet
	work  seal.Work
}

// staging is the memory of ciphertext until it is in the pool. A call has one piece of it at a time, so that calls that wait do not
// wait for each other. A nil *staging is that of a client that does not encrypt.
type staging struct {
	b     *base.Base
	large chan struct{} // holds a token while a put has memory of its own

	once   sync.Once
	pool   *memory.Pool
	err    error
	region transport.RegionID
	open   bool // region is registered
}

// staged is memory that a put has.
type staged struct {
	mem    []byte
	buffer *memory.Buffer
	large  bool
}

func newStaging(b *base.Base) *staging { return &staging{b: b, large: make(chan struct{}, 1)} }

// begin makes the memory when the first put needs it. Transports that cannot have it registered copy from it.
func (s *staging) begin(ctx context.Context) {
	mem := make([]byte, s.b.Config.Seal.Staging)
	if s.pool, s.err = memory.NewPool(mem); s.err != nil {
		return
	}
	id, err := s.b.Engine.Register(context.WithoutCancel(ctx), transfer.Memory{Bytes: mem, FD: -1})
	if s.region, s.open = id, err == nil; err != nil {
		s.b.Log.Warn("the memory in which values are encrypted could not be registered with the transports, which makes puts slower", "error", err)
	}
}

// close ends the registration. The memory stays where that is not possible.
func (s *staging) close(ctx context.Context) error {
	if s == nil || !s.open {
		return nil
	}
	s.open = false
	err := s.b.Engine.Deregister(ctx, s.region)
	if err != nil {
		lost.Store(s, s.pool)
	}
	return err
}

// lost has memory that a transport may still touch.
var lost sync.Map

// most is the size up to which values are put together, in bytes: a quarter, so that several calls find some.
func (s *staging) most() int { return s.b.Config.Seal.Staging / 4 }

// fit returns how many of the items are put together, at least one, and the size of their values.
func (s *staging) fit(items []*Item) (n, size int) {
	if s == nil {
		return len(items), 0
	}
	for _, it := range items {
		if size > 0 && (it.plain > uint64(s.most()) || size+int(it.plain) > s.most()) {
			break
		}
		size += int(it.plain)
		n++
	}
	return n, size
}

// get waits for memory of a size until the context ends. What is larger than all of it is allocated, for one put at a time.
func (s *staging) get(ctx context.Context, size int) (staged, error) {
	if s == nil || size == 0 {
		return staged{}, nil
	}
	if s.once.Do(func() { s.begin(ctx) }); s.err != nil {
		return staged{}, s.err
	}
	if size <= s.b.Config.Seal.Staging/2 {
		b, err := s.pool.Get(ctx, size)
		if err != nil {
			return staged{}, err
		}
		return staged{mem: b.Bytes(), buffer: b}, nil
	}
	select {
	case s.large <- struct{}{}:
		return staged{mem: make([]byte, size), large: true}, nil
	case <-ctx.Done():
		return staged{}, errs.Wrap(errs.BufferOverflow, "wait to encrypt a large value", ctx.Err())
	}
}

// put gives memory back, also where a write is indeterminate: that concerns the peer's memory, as in plain puts, whose callers use
// theirs again. If a device reads late what the next put stages here, the peer's memory is still in quarantine.
func (s *staging) put(m staged) {
	if m.large {
		<-s.large
	}
	m.buffer.Release()
}
