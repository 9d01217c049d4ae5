package lean

import (
	"context"
	"errors"
	"sync/atomic"

	"google.golang.org/grpc"
)

// Pool calls a server over several connections: a call takes the first one that no other call
// uses. So the waiting goroutine can read the connection itself, and a goroutine that makes one
// call after the other uses only one connection. When all are in use, further calls are spread
// evenly. It implements grpc.ClientConnInterface for unary calls. Safe for concurrent use.
type Pool struct {
	clients []*Client
	calls   []atomic.Int32 // in flight, of each
}

var _ grpc.ClientConnInterface = (*Pool)(nil)

// NewPool makes a pool of at most so many connections, at least 1, as NewClient. It does not connect.
func NewPool(addr string, connections int, o ClientOptions) *Pool {
	p := &Pool{clients: make([]*Client, max(1, connections))}
	p.calls = make([]atomic.Int32, len(p.clients))
	for i := range p.clients {
		p.clients[i] = NewClient(addr, o)
	}
	return p
}

// Invoke implements grpc.ClientConnInterface, as Client.Invoke.
func (p *Pool) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	i := p.take()
	defer p.calls[i].Add(-1)
	return p.clients[i].Invoke(ctx, method, args, reply, opts...)
}

// Redirect is Client.Redirect for all connections.
func (p *Pool) Redirect(nowhere error, addrs ...string) {
	for _, c := range p.clients {
		c.Redirect(nowhere, addrs...)
	}
}

// take counts a call on the connection for it.
func (p *Pool) take() int {
	best, least := 0, int32(0)
	for i := range p.calls {
		n := p.calls[i].Load()
		if n == 0 && p.calls[i].CompareAndSwap(0, 1) {
			return i
		}
		if i == 0 || n < least {
			best, least = i, n
		}
	}
	p.calls[best].Add(1)
	return best
}

// NewStream implements grpc.ClientConnInterface through the fallback.
func (p *Pool) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	return p.clients[0].NewStream(ctx, desc, method, opts...)
}

// Close ends the connections; calls in flight fail. Repeatable. The fallback stays open.
func (p *Pool) Close() error {
	var failed error
	for _, c := range p.clients {
		failed = errors.Join(failed, c.Close())
	}
	return failed
}
