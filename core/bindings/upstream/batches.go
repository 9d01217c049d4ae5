package upstream

import (
	"errors"
	"sync"

	"github.com/mooncake-go/mooncake/core/bindings/engine"
	"github.com/mooncake-go/mooncake/core/metadata"
	"github.com/mooncake-go/mooncake/core/transfer"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// Request moves one range: Local to or from Addr in the memory of a segment.
type Request struct {
	Kind    int // 0 read, 1 write
	Segment int32
	Local   []byte
	Addr    uint64
}

// batches holds the batches that are not freed.
type batches struct {
	mu   sync.Mutex
	open map[transfer.BatchID]*batch
}

// batch is a batch with its remaining capacity.
type batch struct {
	*transfer.Batch
	mu    sync.Mutex      // held by Submit
	space int             // requests that can be added
	peers map[string]bool // the peers of its requests
}

func (t *batches) idle() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.open) == 0
}

// NewBatch makes a batch for up to n requests and returns its number, never 0 or the largest.
func (e *Engine) NewBatch(n int) (uint64, error) {
	e.mu.Lock() // Install must not replace the engine below meanwhile.
	defer e.mu.Unlock()
	inner, err := e.openLocked()
	if err != nil {
		return 0, err
	}
	core, err := inner.Core()
	if err != nil {
		return 0, err
	}
	b, err := core.Transfer.NewBatch(n)
	if err != nil {
		return 0, err
	}
	t := &e.batches
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.open == nil {
		t.open = map[transfer.BatchID]*batch{}
	}
	t.open[b.ID()] = &batch{Batch: b, space: n, peers: map[string]bool{}}
	return uint64(b.ID()), nil
}

func (e *Engine) batch(id uint64) (*batch, error) {
	e.batches.mu.Lock()
	defer e.batches.mu.Unlock()
	if b := e.batches.open[transfer.BatchID(id)]; b != nil {
		return b, nil
	}
	return nil, errs.New(errs.InvalidParams, "batch", "%#x was freed, or is not of this engine", id)
}

// Submit starts all requests, or none. It waits for the lookup of peers that failed before, in
// bounded time, and fails if one does not answer. It returns InvalidParams for an invalid request,
// and transfer.ErrTooManyRequests if the batch has no space for all. A request's index in the batch
// counts from 0 over all calls. The notice, if there is one, is delivered to the first request's
// segment when the whole batch is completed.
func (e *Engine) Submit(id uint64, reqs []Request, notice *engine.Notice) error {
	b, err := e.batch(id)
	if err != nil {
		return err
	}
	inner, err := e.open()
	if err != nil {
		return err
	}
	list, err := e.requests(inner, reqs)
	if err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(list) > b.space {
		return errs.WithHint(errs.Wrap(errs.NoAvailableHandle, "submit", transfer.ErrTooManyRequests), "the batch has space for %d more", b.space)
	}
	for i := range list {
		b.peers[list[i].Peer] = true
	}
	for peer := range b.peers {
		if err := inner.EnsurePeer(peer); err != nil {
			return err
		}
	}
	var answers []transfer.Submission
	if notice == nil {
		answers = b.Batch.Submit(list)
	} else {
		answers = b.SubmitNotify(list, metadata.Notification{Name: notice.Name, Message: notice.Message})
	}
	for _, a := range answers {
		if a.Err == nil {
			b.space--
		}
		err = errors.Join(err, a.Err)
	}
	return err
}

func (e *Engine) requests(inner *engine.Engine, reqs []Request) ([]transfer.Request, error) {
	total := uint64(0)
	for _, r := range reqs {
		total += uint64(len(r.Local))
	}
	deadline, err := inner.Deadline(total)
	if err != nil {
		return nil, err
	}
	out := make([]transfer.Request, len(reqs))
	for i, r := range reqs {
		kind := transport.Read
		switch r.Kind {
		case 0:
		case 1:
			kind = transport.Write
		default:
			return nil, errs.New(errs.InvalidParams, "submit", "request %d: the direction %d is neither read (0) nor write (1)", i, r.Kind)
		}
		peer, err := e.peer(inner, r.Segment)
		if err != nil {
			return nil, err
		}
		if r.Addr+uint64(len(r.Local)) < r.Addr {
			return nil, errs.New(errs.InvalidParams, "submit", "request %d: %d bytes at %#x run over the end of the address space", i, len(r.Local), r.Addr)
		}
		out[i] = transfer.Request{Kind: kind, Local: r.Local, Peer: peer, Addr: r.Addr, Deadline: deadline}
	}
	return out, nil
}

// Status returns the state of a request: Waiting, Completed or Failed.
func (e *Engine) Status(id uint64, index int) (state transfer.State, bytes uint64, err error) {
	b, err := e.batch(id)
	if err != nil {
		return 0, 0, err
	}
	s, err := b.Batch.Status(index)
	if err != nil {
		return 0, 0, err
	}
	return reported(s.State), s.Bytes, nil
}

// reported converts a state for the ABI. Every end but completion is Failed, since callers take
// other states for success, or wait for them to end.
func reported(s transfer.State) transfer.State {
	switch {
	case s == transfer.Completed:
		return s
	case s.Terminal():
		return transfer.Failed
	}
	return transfer.Waiting
}

// Free frees a batch. It returns transfer.ErrBatchBusy while a request is neither completed nor
// failed.
func (e *Engine) Free(id uint64) error {
	b, err := e.batch(id)
	if err != nil {
		return err
	}
	failed := b.BatchStatus().State != transfer.Completed
	if err := b.Free(); err != nil {
		return err
	}
	if inner, err := e.open(); err == nil && failed {
		b.mu.Lock()
		for peer := range b.peers {
			inner.Forget(peer)
		}
		b.mu.Unlock()
	}
	e.batches.mu.Lock()
	defer e.batches.mu.Unlock()
	delete(e.batches.open, transfer.BatchID(id))
	return nil
}
