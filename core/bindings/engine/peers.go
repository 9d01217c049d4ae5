package engine

import (
	"context"
	"sync"

	"github.com/mooncake-go/mooncake/core/metadata"
	"github.com/mooncake-go/mooncake/core/transfer"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// maxPeers bounds the peers that are remembered. Forgetting one costs a lookup.
const maxPeers = 1 << 16

// peerSet holds the peers that answered and have not failed since.
type peerSet struct {
	mu   sync.Mutex
	list map[string]bool
}

func (a *peerSet) has(name string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.list[name]
}

func (a *peerSet) add(name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.list == nil || len(a.list) >= maxPeers {
		a.list = map[string]bool{}
	}
	a.list[name] = true
}

func (a *peerSet) forget(name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.list, name)
}

// ensurePeer makes sure that a peer answers, once until a transfer to it fails. It ends the backoff
// of a peer that answers again.
func (s *session) ensurePeer(ctx context.Context, target string) error {
	if target == "" {
		return errs.New(errs.InvalidParams, "transfer", "the name of the peer is empty")
	}
	if target == s.core.Name() || s.peers.has(target) {
		return nil
	}
	if _, err := s.lookup(ctx, target); err != nil {
		return errs.Wrap(errs.TransferFail, "transfer: look up "+target, err)
	}
	s.core.Transfer.Revive(target)
	s.peers.add(target)
	return nil
}

func (s *session) lookup(ctx context.Context, target string) (*metadata.Descriptor, error) {
	if target == s.core.Name() {
		return s.core.Transfer.Descriptor(), nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.cfg.HandshakeConnectTimeout)
	defer cancel()
	return s.core.Lookup(ctx, target)
}

// EnsurePeer makes sure that a peer answers, once until a transfer to it fails, in bounded time.
func (e *Engine) EnsurePeer(target string) error {
	return e.do(func(s *session) error { return s.ensurePeer(s.ctx, SegmentName(target)) })
}

// Forget makes the next EnsurePeer look up a peer again, after a transfer to it failed.
func (e *Engine) Forget(target string) {
	if s, err := e.use(); err == nil {
		s.peers.forget(SegmentName(target))
	}
}

// Sync fetches the descriptor of a peer again, or those of all known peers for "", in bounded time.
func (e *Engine) Sync(target string) error {
	return e.do(func(s *session) error {
		ctx, cancel := context.WithTimeout(s.ctx, s.bound(0))
		defer cancel()
		return s.core.Transfer.Sync(ctx, SegmentName(target))
	})
}

// FirstBuffer returns the address of the first memory that a segment has open to peers, or
// InvalidParams if it has none.
func (e *Engine) FirstBuffer(segment string) (uint64, error) {
	return ask(e, func(s *session) (uint64, error) {
		d, err := s.lookup(s.ctx, SegmentName(segment))
		if err != nil {
			return 0, err
		}
		for _, b := range d.Buffers {
			return b.Addr, nil
		}
		for _, t := range d.Transports {
			for _, r := range t.Regions {
				return r.Addr, nil
			}
		}
		return 0, errs.New(errs.InvalidParams, "first buffer", "%s has no memory open to peers", d.Name)
	})
}

// Name returns the segment name that the engine publishes. It is empty unless the engine is
// initialized.
func (e *Engine) Name() string {
	return peek(e, func(s *session) string { return s.core.Name() })
}

// RPCPort returns the port of the engine's handshake. It is 0 unless the engine is initialized.
func (e *Engine) RPCPort() int {
	return peek(e, func(s *session) int { return s.core.Directory().Daemon().Port() })
}

// Probe asks whether a peer answers, in bounded time.
func (e *Engine) Probe(peer string) error {
	return e.do(func(s *session) error {
		ctx, cancel := context.WithTimeout(s.ctx, s.cfg.HandshakeConnectTimeout)
		defer cancel()
		return s.core.Transfer.Probe(ctx, SegmentName(peer))
	})
}

// Notify delivers a message to a peer, in bounded time.
func (e *Engine) Notify(peer string, n Notice) error {
	return e.do(func(s *session) error { return s.notify(SegmentName(peer), n) })
}

func (s *session) notify(peer string, n Notice) error {
	ctx, cancel := context.WithTimeout(s.ctx, s.cfg.HandshakeConnectTimeout)
	defer cancel()
	return s.core.Transfer.Notify(ctx, peer, metadata.Notification{Name: n.Name, Message: n.Message})
}

// Notices returns the messages that arrived since the last call, in the order of arrival. It is nil
// unless the engine is initialized.
func (e *Engine) Notices() []Notice {
	var out []Notice
	for _, n := range peek(e, func(s *session) []metadata.Notification { return s.core.Transfer.Notifications() }) {
		out = append(out, Notice{Name: n.Name, Message: n.Message})
	}
	return out
}

// Loads returns the load of this machine's devices by the engine.
func (e *Engine) Loads() []transfer.DeviceLoad {
	return peek(e, func(s *session) []transfer.DeviceLoad { return s.core.Transfer.Devices() })
}
