package tcp

import (
	"context"
	"crypto/rand"
	"log/slog"
	"maps"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/mooncake-go/mooncake/plugins/transport-tcp/internal/frame"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/transport"
	"github.com/mooncake-go/mooncake/sdk/x/transportkit"
)

// node implements transport.Transport: a listener that serves the registered regions, and the paths
// to peers.
type node struct {
	cfg     settings
	stats   counters
	regions regionTable
	// wrap is put around every connection; tests look on through it.
	wrap func(net.Conn) net.Conn
	// stopLinger is for tests as well, as is maxCarried.
	stopLinger time.Duration
	maxCarried uint64
	scratch    sync.Pool // of *scratch

	trust trust

	life transportkit.Lifecycle

	mu          sync.Mutex
	log         *slog.Logger
	incarnation uint64 // set by Start, then constant
	session     frame.Session
	listener    net.Listener
	addrs       []string
	conns       map[*serverConn]struct{}
	perPeer     map[frame.Session]int
	upstreamIn  int // accepted connections of upstream peers
	greeting    int // accepted connections that have not said hello yet
	greetings   transportkit.Greetings
	segment     string // what Join said
	paths       map[*path]struct{}
	serving     sync.WaitGroup // the accept loop and one for each accepted connection
}

var (
	_ transport.Transport = (*node)(nil)
	_ transport.Upstream  = (*node)(nil)
	_ StatsReporter       = (*node)(nil)
)

// maxCarried is how many bytes go over one connection with TLS. Then the side that dialled makes another
// one: keys of AES-GCM are good for 2^24.5 records (RFC 8446, section 5.5), and crypto/tls does not renew them.
const maxCarried = 128 << 30

// scratch is a buffer for payload that is discarded. One connection uses at most one.
type scratch [32 << 10]byte

func newNode(cfg Config) *node {
	n := &node{
		scratch: sync.Pool{New: func() any { return new(scratch) }},
		cfg:     settingsOf(cfg), stopLinger: stopLinger, maxCarried: maxCarried, wrap: func(c net.Conn) net.Conn { return c },
		conns: map[*serverConn]struct{}{}, perPeer: map[frame.Session]int{}, paths: map[*path]struct{}{},
	}
	n.greetings.Most = maxGreeting
	n.life.Init(&n.mu, "transport/tcp")
	return n
}

// Start implements plugin.Component: it listens and serves.
func (n *node) Start(ctx context.Context, host plugin.Host) error {
	return n.life.Start(func() error { return n.start(ctx, host) })
}

func (n *node) start(ctx context.Context, host plugin.Host) error {
	const op = "transport/tcp: start"
	ln, err := n.cfg.Addresses.Listen(ctx, op, net.ListenConfig{})
	if err != nil {
		return err
	}
	addrs, err := n.cfg.Addresses.Advertised(op, ln.Addr())
	if err == nil {
		err = n.trust.open(host)
	}
	if err != nil {
		_ = ln.Close()
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.incarnation = transportkit.Incarnation()
	_, _ = rand.Read(n.session[:]) // It never fails.
	n.log, n.listener, n.addrs = host.Logger(), ln, addrs
	n.chooseUpstream()
	n.life.Run()
	n.serving.Add(1)
	go func() {
		defer n.serving.Done()
		transportkit.Accept(ln.Accept, n.log, func(conn net.Conn) {
			if c := n.admit(conn); c != nil {
				go c.run()
			}
		})
	}()
	n.log.Info("listening", "address", ln.Addr().String(), "advertised", addrs, "security", n.trust.mode())
	return nil
}

// Stop implements plugin.Component. It closes the paths of this side, lets requests of peers that
// are being served finish, at most for stall_timeout, and frees everything. Peers are told that it
// stops: what they had sent beyond that has failed and is not indeterminate.
func (n *node) Stop(ctx context.Context) error {
	return n.life.Stop(ctx, func() error { return n.free(ctx) })
}

func (n *node) free(ctx context.Context) error {
	n.mu.Lock()
	paths, conns := slices.Collect(maps.Keys(n.paths)), slices.Collect(maps.Keys(n.conns))
	for c := range n.conns {
		if !c.welcomed {
			_ = c.conn.Close() // Nothing is in flight on it.
		}
	}
	n.mu.Unlock()
	_ = n.listener.Close()
	n.trust.close()
	for _, p := range paths {
		_ = p.Close(ctx) // Ends soon also when the context has ended; see below.
	}
	for _, c := range conns {
		c.drain()
	}
	served, _ := transportkit.WaitFor(ctx, &n.serving, n.cfg.StallTimeout)
	n.mu.Lock()
	for c := range n.conns {
		_ = c.conn.Close()
	}
	n.mu.Unlock()
	<-served
	for _, p := range paths {
		p.connsDone.Wait() // Their connections are closed.
	}
	n.regions.Clear()
	return nil
}

// Endpoint implements transport.Transport.
func (n *node) Endpoint() transport.Endpoint {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.incarnation == 0 {
		return transport.Endpoint{}
	}
	return transport.Endpoint{
		Blob:        frame.Endpoint{Incarnation: n.incarnation, Addrs: n.addrs, TLS: n.trust.on()}.Encode(),
		Incarnation: n.incarnation,
	}
}

// Register implements transport.Transport.
func (n *node) Register(_ context.Context, in transport.Region) (transport.Key, error) {
	const op = "transport/tcp: register"
	if err := n.life.Check(op); err != nil {
		return nil, err
	}
	r, err := n.regions.Add(op, in)
	if err != nil {
		return nil, err
	}
	k := frame.Key{RegionKey: transportkit.RegionKey{Incarnation: n.incarnation, Region: uint64(r.ID()), Token: r.Token(), Length: r.Size(), Access: r.Access()}}
	return k.Encode(), nil
}

// drainGrace is how long Deregister lets requests finish before it closes connections.
const drainGrace = time.Second

// Deregister implements transport.Transport. A peer that is still at the memory after a second
// loses its connection.
func (n *node) Deregister(ctx context.Context, id transport.RegionID) error {
	return n.regions.Remove(ctx, "transport/tcp: deregister", id, min(drainGrace, n.cfg.StallTimeout))
}

// Dial implements transport.Transport. It returns at once; the first operation connects.
func (n *node) Dial(_ context.Context, peer transport.Endpoint) (transport.Path, error) {
	const op = "transport/tcp: dial"
	if err := n.life.Check(op); err != nil {
		return nil, err
	}
	e, err := frame.DecodeEndpoint(peer.Blob)
	if err != nil {
		return nil, errs.Wrap(errs.InvalidParams, op, err)
	}
	if e.Incarnation != peer.Incarnation {
		return nil, errs.New(errs.InvalidParams, op, "incarnation %d does not belong to this endpoint", peer.Incarnation)
	}
	if err := n.checkPeer(op, &e); err != nil {
		return nil, err
	}
	p := newPath(n, e)
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.life.Require(op); err != nil {
		p.cancel()
		return nil, err
	}
	n.paths[p] = struct{}{}
	return p, nil
}

// checkPeer reports an endpoint that this node does not dial.
func (n *node) checkPeer(op string, e *frame.Endpoint) error {
	if e.Upstream != 0 {
		return n.checkUpstream(op, e.Addrs[0])
	}
	return n.trust.check(e)
}

// Stats implements StatsReporter.
func (n *node) Stats() Stats { return n.stats.snapshot() }
