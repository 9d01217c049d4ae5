package tcp

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// maxKeys bounds the keys that one path holds.
const maxKeys = 1 << 16

// path implements transport.Path: a queue of operations and a pool of lanes that take
// from it. mu guards everything below it; nothing blocks while it is held.
type path struct {
	n         *node
	peer      endpoint
	maxLanes  int
	name      string // for errors
	ctx       context.Context
	cancel    context.CancelFunc
	lanesDone sync.WaitGroup
	ready     chan struct{} // holds a token when there may be something to reap

	mu       sync.Mutex
	closed   bool
	keys     []*remoteKey
	imported map[remoteKey]transport.RemoteID
	active   []*op // accepted and not completed
	queue    opQueue
	bytes    int64 // of active
	done     []transport.Completion
	reaped   int // how much of done was given out
	lanes    []*lane
	dialling bool
	retry    backoff
	timer    *time.Timer // runs expire at timerAt
	timerAt  time.Time

	freeOps   []*op
	freeParts []*part
}

func newPath(n *node, peer endpoint) *path {
	ctx, cancel := context.WithCancel(context.Background())
	p := &path{
		n: n, peer: peer, name: "transport/tcp: path to " + peer.Addrs[0], ctx: ctx, cancel: cancel,
		ready: make(chan struct{}, 1), imported: map[remoteKey]transport.RemoteID{}, maxLanes: n.cfg.ConnectionsPerPeer,
	}
	if peer.Upstream != 0 {
		p.maxLanes = min(p.maxLanes, upMaxLanes)
	}
	p.timer = time.AfterFunc(time.Hour, p.expire)
	p.timer.Stop()
	return p
}

// Import implements transport.Path. Importing a key twice gives the same RemoteID.
func (p *path) Import(_ context.Context, blob transport.Key) (transport.RemoteID, error) {
	where := p.name + ": import key"
	k, err := decodeKey(blob)
	if err != nil {
		return 0, errs.Wrap(errs.InvalidKey, where, err)
	}
	if k.Incarnation != p.peer.Incarnation || k.Upstream != (p.peer.Upstream != 0) {
		return 0, &errs.Error{
			Code: errs.InvalidKey, Class: errs.ClassTransientPeer, Op: where,
			Err:  fmt.Errorf("the key is of incarnation %d, the dialled endpoint of %d", k.Incarnation, p.peer.Incarnation),
			Hint: "fetch the peer's endpoint and keys again",
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return 0, p.errClosed()
	}
	if id, ok := p.imported[k]; ok {
		return id, nil
	}
	if len(p.keys) >= maxKeys {
		return 0, errs.New(errs.BufferOverflow, where, "the path holds %d keys, the most it may; dial again", maxKeys)
	}
	p.keys = append(p.keys, &k)
	id := transport.RemoteID(len(p.keys))
	p.imported[k] = id
	return id, nil
}

// Submit implements transport.Path.
func (p *path) Submit(ops []transport.Op) (int, error) {
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	defer p.kick()
	for i := range ops {
		in := &ops[i]
		key, err := p.check(in)
		if err != nil {
			return i, err
		}
		if !p.room(int64(len(in.Local))) {
			return i, nil
		}
		p.accept(in, key, now)
	}
	return len(ops), nil
}

// check returns the key of an operation, or why it is refused.
func (p *path) check(in *transport.Op) (*remoteKey, error) {
	if p.closed {
		return nil, p.errClosed()
	}
	if in.Kind != transport.Read && in.Kind != transport.Write {
		return nil, errs.New(errs.InvalidParams, p.name, "operation %d has unknown kind %d", in.ID, in.Kind)
	}
	if in.Remote == 0 || uint64(in.Remote) > uint64(len(p.keys)) {
		return nil, errs.New(errs.InvalidParams, p.name, "operation %d names remote %d, which was not imported here", in.ID, in.Remote)
	}
	key := p.keys[in.Remote-1]
	if n := uint64(len(in.Local)); in.Offset > key.Length || n > key.Length-in.Offset {
		return nil, errs.New(errs.InvalidParams, p.name, "operation %d: %d bytes at %d reach past the end of region %d (%d bytes)",
			in.ID, n, in.Offset, key.Region, key.Length)
	}
	return key, nil
}

// room reports whether one more operation of size bytes is accepted. Completions that
// were not reaped count as operations, so that they are bounded too.
func (p *path) room(size int64) bool {
	if len(p.active)+len(p.done)-p.reaped >= p.n.cfg.MaxInflightOps {
		return false
	}
	return p.bytes == 0 || p.bytes+size <= p.n.cfg.MaxInflightBytes
}

func (p *path) accept(in *transport.Op, key *remoteKey, now time.Time) {
	if len(in.Local) == 0 {
		p.n.stats.opsOK.Add(1)
		p.complete(transport.Completion{ID: in.ID, Status: transport.OK})
		return
	}
	o := p.newOp()
	o.id, o.kind, o.local, o.key, o.offset, o.deadline = in.ID, in.Kind, in.Local, key, in.Offset, in.Deadline
	if o.deadline.IsZero() {
		o.deadline = now.Add(p.n.cfg.OpTimeout)
	}
	o.index = len(p.active)
	p.active = append(p.active, o)
	p.bytes += int64(len(o.local))
	p.queue.push(o)
	switch {
	case !o.deadline.After(now):
		p.abort(o, p.errDeadline(), false)
	case p.retry.down != nil && now.Before(p.retry.notBefore):
		p.abort(o, p.retry.down, false)
	case p.timerAt.IsZero() || o.deadline.Before(p.timerAt):
		p.setTimer(o.deadline, now)
	}
}

// Close implements transport.Path.
func (p *path) Close(ctx context.Context) error {
	p.mu.Lock()
	if !p.closed {
		p.closed = true
		cause := &errs.Error{Code: errs.TransferFail, Class: errs.ClassTransientPath, Op: p.name, Err: transport.ErrPathClosed}
		for i := len(p.active) - 1; i >= 0; i-- {
			p.abort(p.active[i], cause, true)
		}
		for _, l := range p.lanes {
			l.die(cause)
		}
		p.timer.Stop()
		p.cancel()
		p.signal() // Reap may have to say that this is the end.
	}
	p.mu.Unlock()
	p.n.mu.Lock()
	delete(p.n.paths, p)
	p.n.mu.Unlock()

	ended := make(chan struct{})
	go func() { p.lanesDone.Wait(); close(ended) }()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%s: close: connections are still ending: %w", p.name, ctx.Err())
	}
}

func (p *path) errClosed() error {
	return errs.WithClass(errs.ClassTransientPath, p.name, transport.ErrPathClosed)
}

func (p *path) errDeadline() error {
	e := &errs.Error{Code: errs.RPCTimeout, Class: errs.ClassTransientPath, Op: p.name, Err: context.DeadlineExceeded}
	if p.retry.last != nil {
		e.Err = fmt.Errorf("%w; last attempt to connect: %w", context.DeadlineExceeded, p.retry.last)
	}
	return e
}
