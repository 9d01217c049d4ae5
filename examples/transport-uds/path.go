package uds

import (
	"context"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/mooncake-go/mooncake/sdk/transport"
	"github.com/mooncake-go/mooncake/sdk/transport/pathkit"
)

// op is an operation in flight. It waits in path.queue until a connection takes it; from then on
// only that connection may finish it. path.mu guards all fields but done, which belongs to the
// connection.
type op struct {
	pathkit.Record
	key  *remoteKey
	conn *connection // nil while the op waits in path.queue
	err  error       // why the connection must abort the op
	done int         // bytes moved
}

// path implements transport.Path with the help of pathkit. It has a queue of operations and a few
// connections, each with a goroutine that takes one operation after the other.
type path struct {
	n      *node
	peer   endpoint
	ctx    context.Context // ends attempts to connect when the path is closed
	cancel context.CancelFunc
	work   sync.WaitGroup // the goroutines of connections

	mu sync.Mutex
	pathkit.Base[*remoteKey, op, *op]
	queue       []*op
	more        sync.Cond // queue is not empty, or the path is closed
	connections int       // all of them, connected or not
	idle        int       // connections that wait for an operation
	connected   int
	retry       backoff
}

func newPath(n *node, peer endpoint) *path {
	p := &path{n: n, peer: peer}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.more.L = &p.mu
	p.Init(&p.mu, "transport/uds: path to "+peer.Socket, pathkit.Limits{
		Ops: n.cfg.MaxInflightOps, Bytes: n.cfg.MaxInflightBytes, Timeout: time.Duration(n.cfg.OpTimeout),
	}, p.expire)
	return p
}

// Import implements transport.Path.
func (p *path) Import(_ context.Context, blob transport.Key) (transport.RemoteID, error) {
	k, err := decodeKey(blob)
	if err != nil {
		return 0, p.ErrKey(err)
	}
	if k.Incarnation != p.peer.Incarnation {
		return 0, p.ErrIncarnation(k.Incarnation, p.peer.Incarnation)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.AddKey(blob, k.Region, k.Length, &k)
}

// Submit implements transport.Path.
func (p *path) Submit(ops []transport.Op) (int, error) {
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range ops {
		in := &ops[i]
		key, err := p.Check(in)
		if err != nil {
			return i, err
		}
		if !p.Room(in) {
			return i, nil
		}
		if len(in.Local) == 0 {
			p.Complete(in.ID, nil, false)
			continue
		}
		o := p.Accept(in, now)
		o.key = key
		if o.Late(now) {
			p.Finish(o, p.ErrDeadline(nil), false)
			continue
		}
		p.queue = append(p.queue, o)
		p.rouse(now)
	}
	return len(ops), nil
}

// rouse wakes a connection for a queued operation, or adds one. The caller holds p.mu.
func (p *path) rouse(now time.Time) {
	if p.idle > 0 {
		p.more.Signal()
	}
	hopeful := p.connected == 0 || !now.Before(p.retry.notBefore)
	if len(p.queue) > p.idle && p.connections < p.n.cfg.ConnectionsPerPeer && hopeful {
		p.connections++
		p.work.Go((&connection{p: p}).run)
	}
}

// take returns the next operation of a connection, or nil once the path is closed.
func (p *path) take(c *connection) *op {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.queue) == 0 && !p.Closed() {
		p.idle++
		p.more.Wait()
		p.idle--
	}
	if p.Closed() {
		return nil // Close has finished the queued operations.
	}
	o := p.queue[0]
	p.queue = slices.Delete(p.queue, 0, 1)
	o.conn = c
	return o
}

// giveBack returns an operation to the queue because its connection cannot connect while others
// are connected. If it returns true, the connection ends.
func (p *path) giveBack(o *op) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.connected == 0 || o.err != nil {
		return false
	}
	o.conn = nil
	p.queue = slices.Insert(p.queue, 0, o)
	p.more.Signal()
	p.connections--
	return true
}

// end finishes an operation that its connection is done with. err is nil if all bytes are in place.
func (p *path) end(o *op, err error, indeterminate bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil && o.err != nil {
		err = o.err // The reason why abort interrupted the connection.
	}
	p.Finish(o, err, indeterminate)
}

// abort ends a queued operation at once, and any other as soon as its connection notices. The
// caller holds p.mu.
func (p *path) abort(o *op, err error) {
	if o.conn == nil {
		i := slices.Index(p.queue, o)
		p.queue = slices.Delete(p.queue, i, i+1)
		p.Finish(o, err, false)
	} else if o.err == nil {
		o.err = err
		o.conn.interrupt()
	}
}

// expire aborts operations whose deadline has passed. The caller holds p.mu.
func (p *path) expire(due iter.Seq[*op]) {
	for o := range due {
		p.abort(o, p.ErrOverdue(o, nil))
	}
}

// Close implements transport.Path.
func (p *path) Close(ctx context.Context) error {
	p.mu.Lock()
	if p.Shut() {
		for o := range p.Active() {
			p.abort(o, p.ErrClosed())
		}
		p.cancel()
		p.more.Broadcast()
	}
	p.mu.Unlock()
	p.n.mu.Lock()
	delete(p.n.paths, p)
	p.n.mu.Unlock()
	return p.Drain(ctx, &p.work, "connections are ending")
}
