package shm

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

// path implements transport.Path. mu guards everything below it; nothing blocks while it
// is held. A worker pool's lock may be taken under it.
type path struct {
	n     *node
	peer  endpoint
	name  string         // for errors
	ready chan struct{}  // holds a token when there may be something to reap
	links sync.WaitGroup // the goroutines of links

	mu       sync.Mutex
	closed   bool
	remotes  []*remote
	imported map[remoteKey]transport.RemoteID
	active   []*op // accepted and not completed
	bytes    int64 // of active
	done     []transport.Completion
	reaped   int // how much of done was given out
	freeOps  []*op
	timer    *time.Timer // runs expire at timerAt
	timerAt  time.Time

	link  *link // nil for none
	retry backoff
}

func newPath(n *node, peer endpoint) *path {
	p := &path{
		n: n, peer: peer, name: "transport/shm: path to " + peer.Socket,
		ready: make(chan struct{}, 1), imported: map[remoteKey]transport.RemoteID{},
	}
	p.timer = time.AfterFunc(time.Hour, p.expire)
	p.timer.Stop()
	return p
}

// Import implements transport.Path. Importing a key twice gives the same RemoteID. The
// region is mapped with the first operation on it.
func (p *path) Import(_ context.Context, blob transport.Key) (transport.RemoteID, error) {
	where := p.name + ": import key"
	k, err := decodeKey(blob)
	if err != nil {
		return 0, errs.Wrap(errs.InvalidKey, where, err)
	}
	if k.Incarnation != p.peer.Incarnation {
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
	if len(p.remotes) >= maxKeys {
		return 0, errs.New(errs.BufferOverflow, where, "the path holds %d keys, the most it may; dial again", maxKeys)
	}
	p.remotes = append(p.remotes, &remote{key: k, handle: uint64(len(p.remotes) + 1)})
	id := transport.RemoteID(len(p.remotes))
	p.imported[k] = id
	return id, nil
}

// Submit implements transport.Path.
func (p *path) Submit(ops []transport.Op) (int, error) {
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range ops {
		in := &ops[i]
		r, err := p.check(in)
		if err != nil {
			return i, err
		}
		if !p.room(int64(len(in.Local))) {
			return i, nil
		}
		p.accept(in, r, now)
	}
	return len(ops), nil
}

// check returns the remote of an operation, or why it is refused.
func (p *path) check(in *transport.Op) (*remote, error) {
	if p.closed {
		return nil, p.errClosed()
	}
	if in.Kind != transport.Read && in.Kind != transport.Write {
		return nil, errs.New(errs.InvalidParams, p.name, "operation %d has unknown kind %d", in.ID, in.Kind)
	}
	if in.Remote == 0 || uint64(in.Remote) > uint64(len(p.remotes)) {
		return nil, errs.New(errs.InvalidParams, p.name, "operation %d names remote %d, which was not imported here", in.ID, in.Remote)
	}
	if in.Rail != 0 {
		return nil, errs.New(errs.InvalidParams, p.name, "operation %d names rail %d; this path has none", in.ID, in.Rail)
	}
	r := p.remotes[in.Remote-1]
	if n := uint64(len(in.Local)); in.Offset > r.key.Length || n > r.key.Length-in.Offset {
		return nil, errs.New(errs.InvalidParams, p.name, "operation %d: %d bytes at offset %d reach past the end of region %d (%d bytes)",
			in.ID, n, in.Offset, r.key.Region, r.key.Length)
	}
	return r, nil
}

// room reports whether one more operation of size bytes is accepted. Completions that
// were not reaped count as operations, so that they are bounded too.
func (p *path) room(size int64) bool {
	if len(p.active)+len(p.done)-p.reaped >= p.n.cfg.MaxInflightOps {
		return false
	}
	return p.bytes == 0 || p.bytes+size <= p.n.cfg.MaxInflightBytes
}

func (p *path) accept(in *transport.Op, r *remote, now time.Time) {
	if len(in.Local) == 0 {
		p.completeOp(in.ID, in.Kind, 0, nil)
		return
	}
	deadline := in.Deadline
	if deadline.IsZero() {
		deadline = now.Add(time.Duration(p.n.cfg.OpTimeout))
	}
	err := p.refused(r, in.Kind, now)
	if err == nil && !deadline.After(now) {
		err = p.errDeadline()
	}
	if err != nil {
		p.completeOp(in.ID, in.Kind, len(in.Local), err)
		return
	}
	o := p.newOp()
	*o = op{
		path: p, id: in.ID, kind: in.Kind, local: in.Local, remote: r, offset: in.Offset, deadline: deadline,
		left: len(in.Local), index: len(p.active),
	}
	p.active = append(p.active, o)
	p.bytes += int64(len(o.local))
	if p.timerAt.IsZero() || deadline.Before(p.timerAt) {
		p.setTimer(deadline, now)
	}
	if r.state == remoteReady {
		p.n.work.push(o)
		return
	}
	o.waiting = true
	r.waiting.push(o)
	p.want(r, now)
}

// Close implements transport.Path. When it returns without an error, nothing of the peer is
// mapped any more.
func (p *path) Close(ctx context.Context) error {
	p.mu.Lock()
	if !p.closed {
		p.closed = true
		cause := &errs.Error{Code: errs.TransferFail, Class: errs.ClassTransientPath, Op: p.name, Err: transport.ErrPathClosed}
		p.abortAll(nil, cause)
		if p.link != nil {
			p.link.lose(cause)
		}
		p.timer.Stop()
		p.signal() // Reap may have to say that this is the end.
	}
	p.mu.Unlock()
	p.n.mu.Lock()
	delete(p.n.paths, p)
	p.n.mu.Unlock()

	over := make(chan struct{})
	go func() { p.links.Wait(); close(over) }()
	select {
	case <-over:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%s: close: copies are still ending: %w", p.name, ctx.Err())
	}
}

func (p *path) errClosed() error {
	return errs.WithClass(errs.ClassTransientPath, p.name, transport.ErrPathClosed)
}

func (p *path) errDeadline() error {
	return &errs.Error{Code: errs.RPCTimeout, Class: errs.ClassTransientPath, Op: p.name, Err: context.DeadlineExceeded}
}
