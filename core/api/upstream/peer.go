package upstream

import (
	"container/list"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mooncake-go/mooncake/core/api/upstream/calls"
)

const (
	// maxAddresses bounds the addresses without a connection of which something is remembered.
	maxAddresses = 4096
	// soon is how long after an answer that it cannot read a client closes the connection at the
	// latest. It does so within a millisecond; the rest is for the network.
	soon = 250 * time.Millisecond
	// maxAwaited bounds the clients at one address that are to connect again.
	maxAwaited = 32
)

// A client does not say its version, and some answers differ between versions whose requests do not.
// These are the rules by which a Peer guesses:
//
//   - Every request of a connection narrows what the client may be.
//   - An answer that only some of those versions can read is a guess. If the next thing on the
//     connection is a request, the guess was right. If it is the end of the connection, and soon, the
//     guess was wrong.
//   - What a connection has shown is remembered for its address, as a hint for the next connection.
//     Clients of several versions may run there, so the hint never overrules the connection, and what
//     was shown last counts.
//   - A client that closed its connection over a wrong guess connects again for its next call. So the
//     next connection from there whose answer has to be a guess is taken for that client, whatever the
//     others there have shown.

// peers are the clients of all connections.
type peers struct {
	mu     sync.Mutex
	hosts  map[netip.Addr]*host
	unused *list.List // of *host without connections, the one left last in front
}

// host is what is known of the clients at one address.
type host struct {
	addr  netip.Addr
	conns int
	in    *list.Element // of peers.unused, nil while there are connections
	guess atomic.Uint32 // calls.Versions, never empty; peers.mu to write
	// awaited is what clients may be that closed a connection over a wrong guess, each of them once.
	awaited []calls.Versions
}

// narrow has peers.mu held.
func (h *host) narrow(to calls.Versions) {
	if both := calls.Versions(h.guess.Load()) & to; both != 0 {
		to = both
	}
	h.guess.Store(uint32(to))
}

// await has peers.mu held.
func (h *host) await(may calls.Versions) {
	if len(h.awaited) == maxAwaited {
		h.awaited = slices.Delete(h.awaited, 0, 1)
	}
	h.awaited = append(h.awaited, may)
}

func newPeers() *peers { return &peers{hosts: map[netip.Addr]*host{}, unused: list.New()} }

// enter returns the peer of a new connection.
func (p *peers) enter(remote netip.AddrPort) *Peer {
	p.mu.Lock()
	defer p.mu.Unlock()
	addr := remote.Addr().Unmap().WithZone("")
	h := p.hosts[addr]
	if h == nil {
		h = &host{addr: addr}
		h.guess.Store(uint32(calls.All))
		p.hosts[addr] = h
	}
	if h.in != nil {
		p.unused.Remove(h.in)
		h.in = nil
	}
	h.conns++
	return &Peer{remote: remote, all: p, host: h, allowed: calls.All}
}

// Peer is the client at the other end of a connection. Safe for concurrent use.
type Peer struct {
	remote netip.AddrPort
	all    *peers
	host   *host

	mu      sync.Mutex
	allowed calls.Versions // by its requests, never empty
	awaited calls.Versions // what the client may be whose connection this seems to follow; empty for none
	used    calls.Version  // the last answer of Narrow
	readers calls.Versions // of the last answer, where some of allowed cannot read it; empty otherwise
	at      time.Time
}

// Remote returns the address of the client.
func (p *Peer) Remote() netip.AddrPort { return p.remote }

// Narrow notes a request of f that clients of these versions send, not none, and returns the one of
// them to answer as.
func (p *Peer) Narrow(request calls.Versions, f Reading) calls.Version {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.narrow(request)
	p.used = p.newest()
	if p.awaited == 0 && p.allowed&(p.allowed-1) != 0 && p.allowed&^f.Readers(p.used) != 0 && p.follow() {
		p.used = p.newest()
	}
	return p.used
}

// Reading is a function of which the versions are known whose clients can read a response that is for
// another one. A calls.Function is one.
type Reading interface {
	Readers(v calls.Version) calls.Versions
}

// follow takes the peer for the client that has been awaited for the longest time and may be it. It
// reports whether there is one. The caller holds mu.
func (p *Peer) follow() bool {
	p.all.mu.Lock()
	defer p.all.mu.Unlock()
	for i, may := range p.host.awaited {
		if both := may & p.allowed; both != 0 {
			p.awaited = both
			p.host.awaited = slices.Delete(p.host.awaited, i, i+1)
			return true
		}
	}
	return false
}

// Version returns the version that the client is thought to have.
func (p *Peer) Version() calls.Version {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.newest()
}

// narrow has mu held. A request that contradicts the ones before it shows that they were of another
// client, behind a proxy.
func (p *Peer) narrow(to calls.Versions) {
	before := p.allowed
	if p.allowed &= to; p.allowed == 0 {
		p.allowed = to
	}
	if p.allowed != before {
		p.all.mu.Lock()
		p.host.narrow(p.allowed)
		p.all.mu.Unlock()
	}
}

// newest has mu held.
func (p *Peer) newest() calls.Version {
	if likely := p.allowed & p.awaited; likely != 0 {
		return likely.Newest()
	}
	if likely := p.allowed & calls.Versions(p.host.guess.Load()); likely != 0 {
		return likely.Newest()
	}
	return p.allowed.Newest()
}

// asked says that the client has sent another request: it could read the last answer.
func (p *Peer) asked() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.readers != 0 {
		p.narrow(p.readers)
		p.readers = 0
	}
}

// answered says that the answer to a request was sent as Narrow said, when no other call was in
// progress. readers returns the versions that can read an answer for another.
func (p *Peer) answered(readers func(calls.Version) calls.Versions, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.readers = 0
	if p.allowed&(p.allowed-1) == 0 {
		return // One version is left.
	}
	if can := readers(p.used); p.allowed&^can != 0 {
		p.readers, p.at = can, now
	}
}

// left says that the connection has ended, by the client where it closed it. It is the last call.
func (p *Peer) left(byClient bool, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	wrong := byClient && p.readers != 0 && now.Sub(p.at) <= soon
	p.all.mu.Lock()
	defer p.all.mu.Unlock()
	if wrong {
		p.host.narrow(p.allowed &^ p.readers)
		if may := p.allowed &^ p.readers; may&p.awaited != 0 {
			p.host.await(may & p.awaited)
		} else {
			p.host.await(may)
		}
	}
	p.all.leave(p.host)
}

// leave has mu held.
func (p *peers) leave(h *host) {
	if h.conns--; h.conns > 0 {
		return
	}
	if calls.Versions(h.guess.Load()) == calls.All { // There is nothing to remember.
		delete(p.hosts, h.addr)
		return
	}
	h.in = p.unused.PushFront(h)
	if p.unused.Len() > maxAddresses {
		oldest := p.unused.Remove(p.unused.Back()).(*host) //nolint:forcetypeassert // Nothing else is in the list.
		delete(p.hosts, oldest.addr)
	}
}
