package uds

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

type state uint8

const (
	stateNew state = iota
	stateRunning
	stateStopped // or about to be
)

// node implements transport.Transport. mu guards the fields below it; no goroutine blocks while it
// holds mu.
type node struct {
	cfg     Config
	regions regions
	stopped chan struct{} // closed when Stop is done

	mu       sync.Mutex
	state    state
	log      *slog.Logger
	self     endpoint
	listener *net.UnixListener
	guests   map[*guest]struct{} // accepted connections
	paths    map[*path]struct{}
	serving  sync.WaitGroup // the accept loop, and one for each accepted connection
}

func newNode(cfg Config) *node {
	return &node{cfg: cfg, stopped: make(chan struct{}), guests: map[*guest]struct{}{}, paths: map[*path]struct{}{}}
}

func (n *node) stall() time.Duration { return time.Duration(n.cfg.StallTimeout) }

// Start implements plugin.Component.
func (n *node) Start(ctx context.Context, host plugin.Host) error {
	const op = "transport/uds: start"
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.state != stateNew {
		return errs.New(errs.UnavailableInCurrentStatus, op, "started or stopped before; make a new one")
	}
	self, err := newEndpoint()
	if err != nil {
		return errs.Wrap(errs.NotSupported, op, err)
	}
	dir, err := folder(n.cfg.Folder)
	if err != nil {
		return errs.Wrap(errs.InvalidParams, op, err)
	}
	sweep(ctx, dir)
	if n.listener, self.Socket, err = listen(dir, self.Incarnation); err != nil {
		return errs.Wrap(errs.NotSupported, op, err)
	}
	n.self, n.log, n.state = self, host.Logger(), stateRunning
	ln := n.listener
	n.serving.Go(func() { n.accept(ln) })
	n.log.Info("listening", "socket", self.Socket)
	return nil
}

// newEndpoint returns the endpoint of a new start, without the socket.
func newEndpoint() (endpoint, error) {
	var random [8]byte
	_, _ = rand.Read(random[:]) // Read never fails.
	m, err := thisMachine()
	return endpoint{Machine: m, Incarnation: max(binary.LittleEndian.Uint64(random[:]), 1)}, err
}

// Stop implements plugin.Component. It stops to accept connections and closes the paths of this
// side. Then it finishes the requests of peers that it has begun, for at most stall_timeout, and
// refuses all others, so that no Write of a peer is indeterminate.
func (n *node) Stop(ctx context.Context) error {
	n.mu.Lock()
	was, ln, paths := n.state, n.listener, n.paths
	n.state, n.paths = stateStopped, map[*path]struct{}{}
	n.mu.Unlock()
	switch was {
	case stateNew:
		close(n.stopped)
		return nil
	case stateStopped:
		select {
		case <-n.stopped:
			return nil
		case <-ctx.Done():
			return fmt.Errorf("transport/uds: stop: another call is in progress: %w", ctx.Err())
		}
	}
	defer close(n.stopped)
	_ = ln.Close()
	_ = os.Remove(n.self.Socket)
	for p := range paths {
		_ = p.Close(ctx) // If the context ends first, Stop waits for the rest below.
	}
	n.each((*guest).leave)
	served := make(chan struct{})
	go func() { n.serving.Wait(); close(served) }()
	patient, cancel := context.WithTimeout(ctx, n.stall())
	defer cancel()
	select {
	case <-served:
	case <-patient.Done():
		n.each(func(g *guest) { _ = g.conn.Close() })
		<-served
	}
	for p := range paths {
		p.work.Wait()
	}
	n.regions.Clear()
	return nil
}

// each calls f for every accepted connection.
func (n *node) each(f func(*guest)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for g := range n.guests {
		f(g)
	}
}

// Endpoint implements transport.Transport.
func (n *node) Endpoint() transport.Endpoint {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.self.Incarnation == 0 {
		return transport.Endpoint{}
	}
	return transport.Endpoint{Blob: n.self.encode(), Incarnation: n.self.Incarnation}
}

// running returns the endpoint of this side, or an error before Start and after Stop. The caller
// holds mu.
func (n *node) running(op string) (endpoint, error) {
	if n.state != stateRunning {
		return endpoint{}, errs.New(errs.UnavailableInCurrentStatus, op, "the transport is not running")
	}
	return n.self, nil
}

// Register implements transport.Transport.
func (n *node) Register(_ context.Context, in transport.Region) (transport.Key, error) {
	const op = "transport/uds: register"
	n.mu.Lock()
	self, err := n.running(op)
	n.mu.Unlock()
	if err != nil {
		return nil, err
	}
	r, err := n.regions.Add(op, in)
	if err != nil {
		return nil, err
	}
	k := remoteKey{Incarnation: self.Incarnation, Region: uint64(r.ID()), Length: r.Size(), Token: r.Token()}
	return k.encode(), nil
}

// drainGrace is how long Deregister lets requests finish before it cuts their connections.
const drainGrace = time.Second

// Deregister implements transport.Transport.
func (n *node) Deregister(ctx context.Context, id transport.RegionID) error {
	return n.regions.Remove(ctx, "transport/uds: deregister", id, min(drainGrace, n.stall()))
}

// Dial implements transport.Transport. It returns at once; the first operation connects.
func (n *node) Dial(_ context.Context, peer transport.Endpoint) (transport.Path, error) {
	const op = "transport/uds: dial"
	e, err := decodeEndpoint(peer.Blob)
	if err != nil {
		return nil, errs.Wrap(errs.InvalidParams, op, err)
	}
	if e.Incarnation != peer.Incarnation {
		return nil, errs.New(errs.InvalidParams, op, "incarnation %d does not belong to this endpoint", peer.Incarnation)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	self, err := n.running(op)
	if err != nil {
		return nil, err
	}
	if e.Machine != self.Machine {
		return nil, errs.WithClass(errs.ClassTransientPath, op, errs.New(errs.NotSupported, "", "the peer is on another machine"))
	}
	p := newPath(n, e)
	n.paths[p] = struct{}{}
	return p, nil
}
