package quic

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"net"
	"slices"
	"sync"
	"time"

	quicgo "github.com/quic-go/quic-go"

	"github.com/mooncake-go/mooncake/plugins/transport-quic/internal/config"
	"github.com/mooncake-go/mooncake/plugins/transport-quic/internal/identity"
	"github.com/mooncake-go/mooncake/plugins/transport-quic/internal/udp"
	"github.com/mooncake-go/mooncake/plugins/transport-quic/internal/wire"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/security"
	"github.com/mooncake-go/mooncake/sdk/transport"
	"github.com/mooncake-go/mooncake/sdk/x/transportkit"
)

// node implements transport.Transport: a listener that serves the registered regions, and the paths
// to peers.
type node struct {
	cfg     config.Settings
	clock   func() time.Time // of certificates
	linger  time.Duration    // the least of serverConn.linger; tests have more
	stats   counters
	trust   identity.Keeper
	regions regionTable
	refused transportkit.Seldom // by identity, for their grants
	strange bool                // the certificates do not say who a peer is to the master of the pool
	quit    chan struct{}       // closed when Stop begins to free

	life transportkit.Lifecycle

	mu          sync.Mutex
	log         *slog.Logger
	incarnation uint64 // set by Start, then constant
	socket      *net.UDPConn
	granted     udp.Buffers
	carrier     *quicgo.Transport
	listener    *quicgo.Listener
	addrs       []string
	conns       map[*serverConn]struct{}
	perPeer     map[peerID]int
	handshakes  int // connections that began and were neither let in nor refused yet
	paths       map[*path]struct{}
	serving     sync.WaitGroup // the accept loop, the watch and one for each accepted connection
}

var (
	_ transport.Transport = (*node)(nil)
	_ StatsReporter       = (*node)(nil)
)

func newNode(cfg Config) *node {
	n := &node{
		cfg: config.Of(cfg), clock: time.Now, linger: leastLinger, quit: make(chan struct{}),
		conns: map[*serverConn]struct{}{}, perPeer: map[peerID]int{}, paths: map[*path]struct{}{},
	}
	n.life.Init(&n.mu, "transport/quic")
	n.trust.Config, n.trust.Clock = &n.cfg, func() time.Time { return n.clock() }
	return n
}

// Start implements plugin.Component: it reads the certificates, listens and serves.
func (n *node) Start(ctx context.Context, host plugin.Host) error {
	return n.life.Start(func() error { return n.start(ctx, host) })
}

func (n *node) start(ctx context.Context, host plugin.Host) error {
	id, err := n.identify(host)
	if err != nil {
		return err
	}
	n.strange = n.trust.Process == nil && security.OfHost(host).Mode == security.ModeMTLS
	log := host.Logger()
	n.trust.Log, n.trust.Report = log, host.Report
	n.trust.Begin(id)
	if id.Insecure() {
		log.Warn("insecure_dev: the transport does not verify the identity of peers; any process that can forge an endpoint can pose as a node. Not for production")
	}
	socket, err := n.cfg.Addresses.ListenUDP(ctx, "transport/quic: start")
	if err != nil {
		return err
	}
	if err := n.open(socket, id, log); err != nil {
		_ = socket.Close()
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.incarnation = transportkit.Incarnation()
	n.log = log
	n.life.Run()
	n.serving.Add(2)
	go n.accept(n.listener)
	go n.watch(n.quit)
	log.Info("listening", "address", socket.LocalAddr().String(), "advertised", n.addrs, "certificate_ends", id.Leaf.NotAfter)
	return nil
}

// identify reads the certificates of the settings or, where these name none, of the process.
func (n *node) identify(host plugin.Host) (*identity.Identity, error) {
	k, err := identity.ForProcess(&n.cfg.Config, host)
	if err != nil {
		return nil, err
	}
	if k == nil {
		return identity.Load(&n.cfg.Config, n.clock())
	}
	n.trust.Process = k
	return identity.Of(k.Present()), nil
}

// open makes a QUIC listener of the socket.
func (n *node) open(socket *net.UDPConn, id *identity.Identity, log *slog.Logger) error {
	const op = "transport/quic: start"
	granted, err := udp.Tune(socket, n.cfg.SocketBuffer)
	if err != nil {
		return errs.WithClass(errs.ClassLocalDevice, op, err)
	}
	addrs, err := n.cfg.Addresses.Advertised(op, socket.LocalAddr())
	if err != nil {
		return err
	}
	reset, err := resetKey(id, socket.LocalAddr())
	if err != nil {
		return errs.WithClass(errs.ClassLocalDevice, op, err)
	}
	carrier := &quicgo.Transport{
		Conn: socket, StatelessResetKey: reset, ConnContext: n.beginHandshake,
		VerifySourceAddress: func(net.Addr) bool { return n.crowded() },
	}
	ln, err := carrier.Listen(n.trust.Server(), n.quicConfig(true))
	if err != nil {
		_ = carrier.Close()
		return errs.WithClass(errs.ClassLocalDevice, op, err)
	}
	// Only now, as quic-go asks for more where it may.
	if now, err := udp.Tune(socket, 0); err == nil {
		granted = now
	}
	if want := n.cfg.SocketBuffer; granted.Receive < want || granted.Send < want {
		log.Warn("the kernel grants smaller socket buffers than asked for; packets are lost under load",
			"wanted", want, "receive", granted.Receive, "send", granted.Send, "hint", udp.Hint(want))
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.socket, n.granted, n.carrier, n.listener, n.addrs = socket, granted, carrier, ln, addrs
	return nil
}

// quicConfig is how connections are set up on either side.
func (n *node) quicConfig(server bool) *quicgo.Config {
	c := &quicgo.Config{
		HandshakeIdleTimeout:           n.cfg.DialTimeout,
		MaxIdleTimeout:                 n.cfg.StallTimeout,
		KeepAlivePeriod:                n.cfg.StallTimeout / 3,
		InitialStreamReceiveWindow:     uint64(min(n.cfg.StreamWindow, 1<<20)),
		MaxStreamReceiveWindow:         uint64(n.cfg.StreamWindow),
		InitialConnectionReceiveWindow: uint64(min(n.cfg.ConnectionWindow, 16<<20)),
		MaxConnectionReceiveWindow:     uint64(n.cfg.ConnectionWindow),
		MaxIncomingStreams:             -1,
		MaxIncomingUniStreams:          -1,
		InitialPacketSize:              uint16(n.cfg.PacketSize),
		EnableDatagrams:                true, // The transport sends none; see datagramSize.
	}
	if server {
		// Peers learn that a stream may be used again a round trip after it ended.
		c.MaxIncomingStreams = int64(2*n.cfg.StreamsPerConnection + 16)
	}
	return c
}

// Stop implements plugin.Component. It closes the paths of this side, lets requests of peers that
// are being served finish, at most for stall_timeout, and frees everything. Later requests of peers
// are refused, so that none of them is indeterminate.
func (n *node) Stop(ctx context.Context) error {
	return n.life.Stop(ctx, func() error { return n.free(ctx) })
}

func (n *node) free(ctx context.Context) error {
	n.mu.Lock()
	paths, conns := slices.Collect(maps.Keys(n.paths)), slices.Collect(maps.Keys(n.conns))
	n.mu.Unlock()
	close(n.quit)
	_ = n.listener.Close()
	for _, p := range paths {
		_ = p.Close(ctx) // Ends soon also when the context has ended; see below.
	}
	n.drain(ctx, conns)
	for _, p := range paths {
		p.work.Wait() // Their connections are closed.
	}
	err := n.carrier.Close()
	n.regions.Clear()
	return errors.Join(err, n.socket.Close())
}

// drain lets the requests of peers finish, and then ends their connections.
func (n *node) drain(ctx context.Context, conns []*serverConn) {
	ctx, cancel := context.WithTimeout(ctx, n.cfg.StallTimeout)
	defer cancel()
	var all sync.WaitGroup
	for _, c := range conns {
		all.Go(func() { c.drain(ctx.Done()) })
	}
	all.Wait()
	n.serving.Wait()
}

// Endpoint implements transport.Transport.
func (n *node) Endpoint() transport.Endpoint {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.incarnation == 0 {
		return transport.Endpoint{}
	}
	e := wire.Endpoint{Incarnation: n.incarnation, Addrs: n.addrs}
	if id := n.trust.Now(); id.Insecure() {
		e.Pin = id.Pin
	}
	return transport.Endpoint{Blob: e.Encode(), Incarnation: n.incarnation}
}

// Register implements transport.Transport.
func (n *node) Register(_ context.Context, r transport.Region) (transport.Key, error) {
	const op = "transport/quic: register"
	if err := n.life.Check(op); err != nil {
		return nil, err
	}
	if r.Grants != nil && n.strange {
		return nil, errs.WithHint(errs.WithClass(errs.ClassPermanent, op, errs.New(errs.NotSupported, "", "the memory is served only for grants of the master, and peers with certificates of their own for this transport cannot show any")),
			"leave ca, cert and key of the transport empty, so that it uses those of security")
	}
	reg, err := n.regions.Add(op, r)
	if err != nil {
		return nil, err
	}
	k := wire.Key{Incarnation: n.incarnation, Region: uint64(r.ID), Token: reg.Token(), Length: uint64(len(r.Mem)), Access: r.Access}
	return k.Encode(), nil
}

// deregisterGrace is how long Deregister lets requests of peers finish before it cuts them.
const deregisterGrace = time.Second

// Deregister implements transport.Transport.
func (n *node) Deregister(ctx context.Context, id transport.RegionID) error {
	const op = "transport/quic: deregister"
	if err := n.life.Check(op); err != nil {
		return err
	}
	return n.regions.Remove(ctx, op, id, deregisterGrace)
}

// Dial implements transport.Transport. Connections are made when there is work.
func (n *node) Dial(_ context.Context, peer transport.Endpoint) (transport.Path, error) {
	const op = "transport/quic: dial"
	e, err := wire.DecodeEndpoint(peer.Blob)
	if err != nil {
		return nil, errs.Wrap(errs.InvalidParams, op, err)
	}
	if e.Incarnation != peer.Incarnation {
		return nil, errs.New(errs.InvalidParams, op, "the endpoint says incarnation %d, its blob %d", peer.Incarnation, e.Incarnation)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.life.Require(op); err != nil {
		return nil, err
	}
	p := newPath(n, e)
	n.paths[p] = struct{}{}
	return p, nil
}

// Config holds the settings of the QUIC transport.
type Config = config.Config

// DefaultConfig returns the defaults, which have no certificates: a transport made from them does
// not start.
func DefaultConfig() *Config { return config.Default() }

// Stats implements StatsReporter.
func (n *node) Stats() Stats {
	c := &n.stats
	s := Stats{
		Stats: c.Stats(wire.Refusals), ConnectionsCut: c.connsCut.Load(), Untrusted: c.untrusted.Load(), Overflow: c.overflow.Load(),
		Reloads: n.trust.Reloads.Load(),
	}
	n.mu.Lock()
	s.SocketReceive, s.SocketSend = n.granted.Receive, n.granted.Send
	n.mu.Unlock()
	for _, c := range n.connections() {
		q := c.quic.ConnectionStats()
		s.Connections = append(s.Connections, ConnectionStats{
			Peer: c.quic.RemoteAddr().String(), Dialled: c.dialled(), GSO: c.quic.ConnectionState().GSO, Datagram: datagramSize(c.quic),
			Window: q.CongestionWindow, RTT: q.SmoothedRTT, MinRTT: q.MinRTT,
			PacketsSent: q.PacketsSent, PacketsLost: q.PacketsLost, BytesSent: q.BytesSent, BytesReceived: q.BytesReceived,
		})
	}
	return s
}
