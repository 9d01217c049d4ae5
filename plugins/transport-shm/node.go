package shm

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/mooncake-go/mooncake/plugins/transport-shm/internal/wire"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/security"
	"github.com/mooncake-go/mooncake/sdk/transport"
	"github.com/mooncake-go/mooncake/sdk/x/transportkit"
)

// node implements transport.Transport: a listener that hands out the registered regions, the paths
// to peers, and the workers that copy.
type node struct {
	cfg     Config
	stats   counters
	regions regionTable
	work    *pool

	life transportkit.Lifecycle

	mu       sync.Mutex
	log      *slog.Logger
	self     wire.Endpoint // set by Start, then constant
	listener *net.UnixListener
	conns    map[*serverConn]bool // true once they said hello
	paths    map[*path]struct{}
	serving  sync.WaitGroup // the accept loop and one for each connection
	remarked bool           // a region that peers cannot map was logged
}

var (
	_ transport.Transport = (*node)(nil)
	_ StatsReporter       = (*node)(nil)
)

func newNode(cfg Config) *node {
	n := &node{
		cfg:   cfg,
		conns: map[*serverConn]bool{}, paths: map[*path]struct{}{},
	}
	n.life.Init(&n.mu, "transport/shm")
	n.work = newPool(&n.stats, cfg.SliceBytes, cfg.workers())
	return n
}

// Start implements plugin.Component: it listens and starts the workers.
func (n *node) Start(ctx context.Context, host plugin.Host) error {
	return n.life.Start(func() error { return n.start(ctx, host) })
}

func (n *node) start(ctx context.Context, host plugin.Host) error {
	if mode := security.OfHost(host).Mode; mode != "" && mode != security.ModeOff && n.cfg.Access == AccessAny {
		return errs.WithHint(errs.New(errs.InvalidParams, "transport/shm: start", "access is any, so that every user of this machine may map memory, and security.mode is %s", mode),
			"set access to user: then the kernel proves that peers are of this user or root")
	}
	here, err := wire.ThisHost()
	if err != nil {
		return err
	}
	ln, name, err := listen(ctx)
	if err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.self = wire.Endpoint{
		Host: here, Incarnation: transportkit.Incarnation(), Socket: name,
	}
	_, _ = rand.Read(n.self.Secret[:]) // It never fails.
	n.log, n.listener = host.Logger(), ln
	n.life.Run()
	n.serving.Add(1)
	go func() {
		defer n.serving.Done()
		transportkit.Accept(ln.AcceptUnix, n.log, func(c *net.UnixConn) { n.admit(wire.Conn{UnixConn: c}) })
	}()
	n.work.start()
	n.log.Info("processes of this host can map registered memory", "access", n.cfg.Access, "socket", name)
	return nil
}

// Endpoint implements transport.Transport.
func (n *node) Endpoint() transport.Endpoint {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.self.Incarnation == 0 {
		return transport.Endpoint{}
	}
	return transport.Endpoint{Blob: n.self.Encode(), Incarnation: n.self.Incarnation}
}

// Register implements transport.Transport. NotSupported for memory that is to be open to peers and
// is no sealed memfd; memory for local use may be any.
func (n *node) Register(_ context.Context, in transport.Region) (transport.Key, error) {
	if err := n.life.Check("transport/shm: register"); err != nil {
		return nil, err
	}
	r, err := n.regions.add(in)
	if err != nil {
		if errs.Is(err, errs.NotSupported) {
			n.remark(err)
		}
		return nil, err
	}
	k := wire.Key{Incarnation: n.self.Incarnation, Region: uint64(r.ID()), Token: wire.Token(r.Token()), Length: r.Size(), Access: r.Access()}
	return k.Encode(), nil
}

// remark logs once that there is memory which peers cannot map.
func (n *node) remark(err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.remarked {
		n.remarked = true
		n.log.Info("memory that peers cannot map is left to other transports; this is not said again", "error", err)
	}
}

// Deregister implements transport.Transport. It waits revoke_timeout at most.
func (n *node) Deregister(ctx context.Context, id transport.RegionID) error {
	const op = "transport/shm: deregister"
	r := n.regions.Get(id)
	if r == nil {
		return errs.New(errs.InvalidParams, op, "region %d is not registered", id)
	}
	idle, tell := r.close()
	for s, handle := range tell {
		n.stats.revoked.Add(1)
		go s.tell(wire.Message{Type: wire.MsgRevoke, Handle: handle}) // One that does not read delays no other, and ends within SendLimit.
	}
	timer := time.NewTimer(time.Duration(n.cfg.RevokeTimeout))
	defer timer.Stop()
	var cause error
	select {
	case <-idle:
		n.regions.Delete(r)
		return nil
	case <-ctx.Done():
		cause = ctx.Err()
	case <-timer.C:
		cause = fmt.Errorf("no answer for %s", n.cfg.RevokeTimeout)
	}
	return &errs.Error{
		Code: errs.UnavailableInCurrentStatus, Class: errs.ClassLocalDevice, Op: op,
		Err:  fmt.Errorf("region %d is still mapped by a peer that lives, its memory must not be reused yet: %w", id, cause),
		Hint: "deregister it again with more time, or end the peer",
	}
}

// Dial implements transport.Transport. It connects at once and says hello in the background.
func (n *node) Dial(ctx context.Context, peer transport.Endpoint) (transport.Path, error) {
	const op = "transport/shm: dial"
	if err := n.life.Check(op); err != nil {
		return nil, err
	}
	e, err := wire.DecodeEndpoint(peer.Blob)
	if err != nil {
		return nil, errs.Wrap(errs.InvalidParams, op, err)
	}
	if e.Incarnation != peer.Incarnation {
		return nil, errs.New(errs.InvalidParams, op, "incarnation %d does not belong to this endpoint", peer.Incarnation)
	}
	if e.Host.NetNS != n.self.Host.NetNS || !bytes.Equal(e.Host.Boot[:], n.self.Host.Boot[:]) {
		return nil, errs.WithClass(errs.ClassTransientPath, op, errs.New(errs.NotSupported, "", "the peer is on another host, or in another network namespace"))
	}
	p := newPath(n, e)
	c, err := n.connect(ctx, e)
	if err != nil {
		return nil, err
	}
	p.mu.Lock() // Stop, once it sees the path, finds the connection too.
	defer p.mu.Unlock()
	n.mu.Lock()
	if err := n.life.Require(op); err != nil {
		n.mu.Unlock()
		_ = c.Close()
		return nil, err
	}
	n.paths[p] = struct{}{}
	n.mu.Unlock()
	p.begun(c)
	return p, nil
}

// Stats implements StatsReporter.
func (n *node) Stats() Stats { return n.stats.snapshot() }

var errStillMapped = errors.New("peers that live did not unmap it")

// Stop implements plugin.Component. It closes the paths of this side and has the peers unmap what
// they were given, for revoke_timeout at most. An error says that some did not: their memory must
// not be reused while they live.
func (n *node) Stop(ctx context.Context) error {
	return n.life.Stop(ctx, func() error { return n.free(ctx) })
}

func (n *node) free(ctx context.Context) error {
	_ = n.listener.Close()
	n.mu.Lock()
	paths := slices.Collect(maps.Keys(n.paths))
	n.mu.Unlock()
	for _, p := range paths {
		_ = p.Close(ctx) // Ends soon also when the context has ended; see below.
	}
	n.dismiss(ctx)
	for _, p := range paths {
		p.connsDone.Wait() // Their connections are closed, and copies are short.
	}
	n.work.stop()
	if held := n.regions.clear(); held > 0 {
		return &errs.Error{
			Code: errs.UnavailableInCurrentStatus, Class: errs.ClassLocalDevice, Op: "transport/shm: stop",
			Err:  fmt.Errorf("registered memory is still mapped %d times, it must not be reused: %w", held, errStillMapped),
			Hint: "end those processes first",
		}
	}
	return nil
}

// dismiss asks all peers to go and waits for them.
func (n *node) dismiss(ctx context.Context) {
	n.mu.Lock()
	var greeted []*serverConn
	for s, hello := range n.conns {
		if hello {
			greeted = append(greeted, s)
		} else {
			_ = s.conn.Close() // It has nothing of us.
		}
	}
	n.mu.Unlock()
	for _, s := range greeted {
		s.tell(wire.Message{Type: wire.MsgGoAway, Reason: wire.ReasonStopping})
	}
	served, in := transportkit.WaitFor(ctx, &n.serving, time.Duration(n.cfg.RevokeTimeout))
	if in {
		return
	}
	for _, s := range greeted {
		_ = s.conn.Close() // Its goroutine ends; what it was given stays noted.
	}
	<-served
}
