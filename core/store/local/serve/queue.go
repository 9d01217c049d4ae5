package serve

import (
	"context"
	"errors"
	"net"
	"sync"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
)

// queue is a listener whose connections come from elsewhere.
type queue struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func newQueue() *queue { return &queue{conns: make(chan net.Conn), done: make(chan struct{})} }

// push hands a connection over; false after Close.
func (q *queue) push(c net.Conn) bool {
	select {
	case q.conns <- c:
		return true
	case <-q.done:
		return false
	}
}

// Accept implements net.Listener.
func (q *queue) Accept() (net.Conn, error) {
	select {
	case c := <-q.conns:
		return c, nil
	case <-q.done:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (q *queue) Close() error {
	q.once.Do(func() { close(q.done) })
	return nil
}

// Addr implements net.Listener.
func (q *queue) Addr() net.Addr { return &net.UnixAddr{Name: "attached", Net: "unix"} }

// owned is a connection for calls of an attached process.
type owned struct {
	net.Conn
	by *attached
}

// attached names the process that a call comes from.
type attached struct {
	credentials.CommonAuthInfo
	process *process
}

// AuthType implements credentials.AuthInfo.
func (*attached) AuthType() string { return "attachment" }

// bound are the credentials of connections that were bound to a process when they were
// accepted.
type bound struct{}

// ServerHandshake implements credentials.TransportCredentials.
func (bound) ServerHandshake(c net.Conn) (net.Conn, credentials.AuthInfo, error) {
	o, ok := c.(*owned)
	if !ok {
		return nil, nil, errors.New("the connection belongs to no attached process")
	}
	return c, o.by, nil
}

// ClientHandshake implements credentials.TransportCredentials.
func (bound) ClientHandshake(context.Context, string, net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errors.New("this is a server")
}

// Info implements credentials.TransportCredentials.
func (bound) Info() credentials.ProtocolInfo {
	return credentials.ProtocolInfo{SecurityProtocol: "attachment"}
}

// Clone implements credentials.TransportCredentials.
func (b bound) Clone() credentials.TransportCredentials { return b }

// OverrideServerName implements credentials.TransportCredentials.
func (bound) OverrideServerName(string) error { return nil }

// callerOf returns the process that a call comes from.
func callerOf(ctx context.Context) *process {
	if p, ok := peer.FromContext(ctx); ok {
		if a, ok := p.AuthInfo.(*attached); ok {
			return a.process
		}
	}
	return nil
}
