package client

import (
	"context"
	"errors"
	"net"
	"strconv"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"

	"github.com/mooncake-go/mooncake/core/api/rpc"
	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/internal/doors"
	"github.com/mooncake-go/mooncake/sdk/security"
)

// grpcConn is the connection to a master that does not speak package lean.
type grpcConn struct {
	*grpc.ClientConn
	connect func(ctx context.Context, addr string) (net.Conn, error)
	// resolver tells the library of one address, the number of the redirect: dial knows the real ones, which the
	// standard resolver resolves anew with every attempt. Another number ends the wait before the next attempt.
	resolver *manual.Resolver

	mu        sync.Mutex
	addrs     []string
	nowhere   error
	redirects int
	conns     map[*grpcSocket]struct{}
}

// newGRPC makes a connection to name, host:port or what stands for the addresses of a later redirect.
func newGRPC(name string, addrs []string, d *doors.Doors, connectTimeout, maxRetryDelay time.Duration) (*grpcConn, error) {
	g := &grpcConn{connect: Dialer(d, dialTCP), resolver: manual.NewBuilderWithScheme("redirected"), addrs: addrs, conns: map[*grpcSocket]struct{}{}}
	g.resolver.InitialState(redirectState(0))
	conn, err := grpc.NewClient("redirected:///"+name,
		grpc.WithResolvers(g.resolver),
		grpc.WithContextDialer(g.dial),
		grpc.WithTransportCredentials(insecure.NewCredentials()), // TLS, where there is any, is the dialler's.
		grpc.WithNoProxy(),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(rpc.MaxMessageSize), grpc.MaxCallSendMsgSize(rpc.MaxMessageSize)),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: maxRetryDelay},
			MinConnectTimeout: connectTimeout,
		}),
		// A master that vanished without closing is noticed within 15 s.
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 10 * time.Second, Timeout: 5 * time.Second, PermitWithoutStream: true}),
		grpc.WithIdleTimeout(0),
	)
	g.ClientConn = conn
	return g, err
}

// Invoke implements grpc.ClientConnInterface.
func (g *grpcConn) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	g.mu.Lock()
	nowhere := g.nowhere
	g.mu.Unlock()
	if nowhere != nil {
		return nowhere
	}
	return g.ClientConn.Invoke(ctx, method, args, reply, opts...)
}

// redirect is lean.Client.Redirect.
func (g *grpcConn) redirect(nowhere error, addrs ...string) {
	g.mu.Lock()
	g.addrs, g.nowhere = addrs, nowhere
	connected := false
	for s := range g.conns {
		if len(addrs) > 0 && s.addr == addrs[0] {
			connected = true
		} else {
			_ = s.Conn.Close() // The library notices, and forgets the socket by Close.
		}
	}
	if !connected {
		g.redirects++
	}
	state := redirectState(g.redirects)
	g.mu.Unlock()
	g.resolver.UpdateState(state)
}

// renew has further calls take another connection to the same addresses. The library ends the present one once no
// call is in flight.
func (g *grpcConn) renew() {
	g.mu.Lock()
	g.redirects++
	state := redirectState(g.redirects)
	g.mu.Unlock()
	g.resolver.UpdateState(state)
}

// redirectState is what the library hears of the n-th redirect.
func redirectState(n int) resolver.State {
	return resolver.State{Addresses: []resolver.Address{{Addr: strconv.Itoa(n)}}}
}

// Dialer returns a function that connects to the RPC port of a master with dial, with TLS if d says so.
func Dialer(d *doors.Doors, dial func(ctx context.Context, addr string) (net.Conn, error)) func(ctx context.Context, addr string) (net.Conn, error) {
	secured := d.Dialer(config.DoorRPC, func(ctx context.Context, _, addr string) (net.Conn, error) { return dial(ctx, addr) }, security.RoleMaster)
	return func(ctx context.Context, addr string) (net.Conn, error) { return secured(ctx, "tcp", addr) }
}

func dialTCP(ctx context.Context, addr string) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, "tcp", addr)
}

// dial connects to the first of the addresses that can be reached.
func (g *grpcConn) dial(ctx context.Context, _ string) (net.Conn, error) {
	g.mu.Lock()
	addrs := g.addrs
	g.mu.Unlock()
	failed := errors.New("it is not known yet where the master is")
	for i, addr := range addrs {
		conn, err := g.connect(ctx, addr)
		if err == nil {
			return g.keep(conn, addr)
		}
		if i == 0 {
			failed = nil
		}
		failed = errors.Join(failed, err)
	}
	return nil, failed
}

// keep makes a connection one that a redirect ends.
func (g *grpcConn) keep(conn net.Conn, addr string) (net.Conn, error) {
	s := &grpcSocket{Conn: conn, of: g, addr: addr}
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, a := range g.addrs {
		if a == addr {
			g.conns[s] = struct{}{}
			security.OnLeave(conn, func() { go g.renew() })
			return s, nil
		}
	}
	_ = conn.Close()
	return nil, errors.New("another master has taken over")
}

// grpcSocket is a connection to one address.
type grpcSocket struct {
	net.Conn
	of   *grpcConn
	addr string
}

// Close implements net.Conn.
func (s *grpcSocket) Close() error {
	s.of.mu.Lock()
	delete(s.of.conns, s)
	s.of.mu.Unlock()
	return s.Conn.Close()
}
