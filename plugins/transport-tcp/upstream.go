package tcp

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"net"
	"strconv"
	"time"

	"github.com/mooncake-go/mooncake/plugins/transport-tcp/internal/frame"
	"github.com/mooncake-go/mooncake/plugins/transport-tcp/internal/upstream"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
	"github.com/mooncake-go/mooncake/sdk/x/transportkit"
)

// upProtocol is the protocol of a segment descriptor that this transport serves.
const upProtocol = "tcp"

// Join implements transport.Upstream.
func (n *node) Join(name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.segment = name
}

// Segment implements transport.Upstream. Where upstream peers are refused it names no port and no
// buffers.
func (n *node) Segment() transport.Segment {
	n.mu.Lock()
	ln, name, running := n.listener, n.segment, n.life.Running()
	n.mu.Unlock()
	s := transport.Segment{Protocol: upProtocol, DataVersion: 1}
	if !running || !n.cfg.Upstream {
		return s
	}
	if at, ok := ln.Addr().(*net.TCPAddr); ok {
		s.DataPort, s.DataVersion = at.Port, 2
	}
	s.Buffers = n.buffers(name)
	return s
}

// Translate implements transport.Upstream.
func (n *node) Translate(peer transport.PeerSegment) (transport.Endpoint, []transport.Key, error) {
	const op = "transport/tcp: upstream peer"
	if err := n.checkUpstream(op, peer.Name); err != nil {
		return transport.Endpoint{}, nil, err
	}
	if peer.Protocol != upProtocol {
		return transport.Endpoint{}, nil, errs.New(errs.InvalidParams, op, "%q publishes protocol %q, not tcp", peer.Name, peer.Protocol)
	}
	if peer.DataPort < 1 || peer.DataPort > math.MaxUint16 {
		return transport.Endpoint{}, nil, errs.New(errs.InvalidParams, op, "%q publishes data port %d, so there is no way to reach it", peer.Name, peer.DataPort)
	}
	addr := net.JoinHostPort(cmp.Or(peer.DataHost, peer.Host), strconv.Itoa(peer.DataPort))
	if err := transportkit.CheckAddress(addr); err != nil {
		return transport.Endpoint{}, nil, errs.Wrap(errs.InvalidParams, op, fmt.Errorf("%q is at %q: %w", peer.Name, addr, err))
	}
	version := uint8(1)
	if peer.DataVersion >= 2 && n.cfg.UpstreamProto != 1 {
		version = 2
	}
	e := frame.Endpoint{Incarnation: upIncarnation(peer, addr), Addrs: []string{addr}, Upstream: version}
	keys := make([]transport.Key, len(peer.Buffers))
	for i, b := range peer.Buffers {
		if b.Addr == 0 || b.Length == 0 || b.Addr > math.MaxUint64-b.Length {
			continue
		}
		k := frame.Key{RegionKey: transportkit.RegionKey{Incarnation: e.Incarnation, Region: b.Addr, Length: b.Length, Access: transport.AccessRemote}, Upstream: true}
		keys[i] = k.Encode()
	}
	return transport.Endpoint{Blob: e.Encode(), Incarnation: e.Incarnation}, keys, nil
}

// chooseUpstream decides whether upstream's protocol is served where the settings leave it open.
func (n *node) chooseUpstream() {
	if !n.trust.on() {
		return
	}
	asked := n.cfg.Config.Upstream != nil && *n.cfg.Config.Upstream
	if n.cfg.Upstream = asked; asked {
		n.log.Warn("upstream's protocol is served in plaintext although security.mode is not off, since the settings of the transport say upstream: true; any program that reaches the port reads and writes every region that is open to peers",
			"security", n.trust.mode())
	}
}

// checkUpstream reports that upstream's protocol is switched off.
func (n *node) checkUpstream(op, peer string) error {
	if n.cfg.Upstream {
		return nil
	}
	hint := "set upstream: true in the configuration of transport/tcp"
	if n.trust.on() {
		hint += "; it is plaintext and has no keys, which security.mode " + n.trust.mode() + " is to keep out"
	}
	return errs.WithHint(errs.New(errs.NotSupported, op, "%q speaks upstream's protocol, which is switched off", peer), "%s", hint)
}

// upIncarnation stands for what upstream does not have: it follows from where the node is. A node
// that comes back elsewhere has another; one that comes back at the same place does not, and then
// only the check of addresses tells the two apart. Buffers do not count: they come and go while the
// node runs.
func upIncarnation(peer transport.PeerSegment, addr string) uint64 {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %d %d", peer.Name, addr, peer.Port, peer.DataVersion))
	return max(binary.LittleEndian.Uint64(sum[:]), 1)
}

// Accept implements transport.Upstream. Connections over TCP need no handshake.
func (n *node) Accept(context.Context, []byte) ([]byte, error) {
	return nil, errs.Wrap(errs.NotSupported, "transport/tcp: set up a connection", errors.New("tcp needs no handshake; the peer took this node for one of RDMA"))
}

// upIdle is how long a peer of upstream is taken to keep a connection without work.
const upIdle = 2 * time.Minute

// The cuts of an operation for a peer of upstream: a multiple of upAlign, at most upMaxChunk.
const (
	upAlign    = 4 << 10
	upMaxChunk = 1 << 30
)

// cut returns how long the next chunk of an operation may be. Where one request after the other
// goes over a connection each costs a round trip, so there an operation is cut into as many chunks
// as there are connections, and none smaller than a slice.
func (c *connection) cut(o *op) int {
	if c.p.peer.Upstream == 0 {
		if c.p.far {
			return min(c.maxSlice, farChunk)
		}
		return c.maxSlice
	}
	share := (len(o.Local) + c.p.maxConns - 1) / c.p.maxConns
	return min(max(c.maxSlice, (share+upAlign-1)&^(upAlign-1)), upMaxChunk)
}

// sendUpstream puts the one request of a batch on the wire. After a WRITE of version 1, which has
// no answer, follows a READ of its last byte: since the peer serves one request after the other,
// the answer to that says that the bytes are in its memory. closing.go says what follows where the
// peer does not serve a second one.
func (c *connection) sendUpstream() error {
	w := &c.w
	ask := &w.batch[0]
	h := upstream.Header{Size: uint64(ask.Length), Addr: ask.Region + ask.Offset, Op: upstream.Read, V2: c.p.peer.Upstream == 2}
	if ch := w.chunks[0]; ch != nil {
		h.Op, h.Size = upstream.Write, uint64(len(ch.buf))
		if !h.V2 && ch.stage == stageShared {
			last := upstream.Header{Size: 1, Addr: h.Addr + h.Size - 1, Op: upstream.Read}
			w.vec[w.used] = last.Put(w.raw[upstream.HeaderSize:])
			w.used++
		}
	}
	w.vec[0] = h.Put(w.raw[:])
	w.bufs = w.vec[:w.used]
	err := w.pace.WriteAll(&w.bufs, time.Time{})
	clear(w.vec[:w.used])
	if ch := w.chunks[0]; ch != nil && ch.stage == stageAlone {
		c.gauge.CloseWrite()
	}
	return err
}

// readUpstream takes answers until the connection ends. It always returns an error.
func (c *connection) readUpstream() error {
	head := c.r.in[:upstream.StatusSize]
	if c.p.peer.Upstream == 1 {
		head = head[:1] // Of the payload. Waiting for it shows that the peer has closed.
	}
	for {
		if got, err := c.readFull(head, nil); err != nil {
			return c.closedUpstream(got, err)
		}
		if err := c.answerUpstream(head); err != nil {
			return err
		}
	}
}

// errUnasked says that a peer of upstream sent bytes without a request.
var errUnasked = errors.New("an answer that was not asked for")

// answerUpstream handles the answer that begins with head.
func (c *connection) answerUpstream(head []byte) error {
	p := c.p
	p.mu.Lock()
	defer p.mu.Unlock()
	ch := c.slots[0]
	if ch == nil || ch.answered {
		return fmt.Errorf("%w: %w", frame.ErrFrame, errUnasked)
	}
	if len(head) == upstream.StatusSize {
		status, err := upstream.DecodeStatus(head)
		if err != nil {
			return err
		}
		if status != upstream.StatusOK {
			refused := upstream.Refusal(p.Name(), status)
			c.die(refused) // The peer closes the connection. First, so that it takes no more work.
			c.resolve(ch, refused)
			return refused
		}
		head = nil
	}
	switch {
	case !ch.write:
		return c.receive(ch, head, 0)
	case ch.stage == stageAlone:
		return fmt.Errorf("%w: %w", frame.ErrFrame, errUnasked)
	case ch.stage == stageProof:
		c.resolve(ch, ch.proof(head[0]))
	default:
		c.resolve(ch, nil)
	}
	return nil
}

// errNoReason ends a connection that could not be written to and on which nothing was said.
var errNoReason = errors.New("the peer takes no more bytes and gave no reason")

// hearTime is for a machine that is busy; what the peer said is there already.
const hearTime = 2 * time.Second

// hearOut lets the reader go on for a moment after the writer failed: a peer that rejects a WRITE
// says so and closes, and the writer may notice the second before the reader the first.
func (c *connection) hearOut() {
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	if c.up {
		c.hearing = true
		_ = c.conn.SetReadDeadline(time.Now().Add(hearTime))
	}
}

// errRejected ends the connection of an upstream peer whose request was refused.
var errRejected = errors.New("request rejected")

// greetUpstream takes over a connection that did not begin with our mark. It reports whether the
// first eight bytes, which are in c.in, belong to a request of upstream; that is in c.up then.
func (c *serverConn) greetUpstream(limit time.Time) bool {
	cfg, stats := &c.n.cfg, &c.n.stats
	if !cfg.Upstream || binary.LittleEndian.Uint64(c.in[:]) > upstream.MaxSize {
		stats.foreign.Add(1)
		return false
	}
	if c.pace.ReadFull(c.in[len(frame.HelloMagic):upstream.HeaderSize], limit) != nil {
		return false
	}
	c.up.Decode(c.in[:])
	if c.up.Check() == frame.ReasonBadFrame {
		stats.foreign.Add(1)
		return false
	}
	why := c.n.welcomeUpstream(c)
	stats.refuse(why)
	return why == frame.ReasonNone
}

// serveUpstream answers the request in c.up and those after it, until one is refused or the
// connection ends.
func (c *serverConn) serveUpstream() error {
	for {
		if err := c.answerUpstream(&c.up); err != nil {
			return err
		}
		if err := c.await(c.in[:upstream.HeaderSize]); err != nil {
			return err
		}
		c.up.Decode(c.in[:])
	}
}

// answerUpstream carries out one request. An error ends the connection.
func (c *serverConn) answerUpstream(h *upstream.Header) error {
	limit := time.Now().Add(c.n.cfg.OpTimeout)
	r, mem, why := c.acquireAt(h)
	if why != frame.ReasonNone {
		c.n.stats.refuse(why)
		if h.V2 && c.sendUpstream(upstream.StatusRejected, nil, limit) == nil {
			c.linger(lingerTime, lingerBytes)
		}
		return errRejected
	}
	defer r.Release(c)
	limit = c.n.cfg.due(len(mem))
	if h.Op == upstream.Read {
		c.n.stats.Served(transport.Read, len(mem))
		return c.sendUpstream(upstream.StatusOK, mem, limit)
	}
	if err := c.pace.ReadFull(mem, limit); err != nil {
		return err
	}
	c.n.stats.Served(transport.Write, len(mem))
	if !h.V2 {
		return nil
	}
	return c.sendUpstream(upstream.StatusOK, nil, limit)
}

// sendUpstream sends the status, where the request has one, and a payload.
func (c *serverConn) sendUpstream(status uint32, payload []byte, limit time.Time) error {
	head := c.in[:0]
	if c.up.V2 {
		head = upstream.PutStatus(c.in[:], status)
	}
	o := &c.out
	o.bufs = append(o.bufs[:0], head, payload)
	whole := o.bufs // Writing consumes o.bufs; keep the array for the next time.
	err := c.pace.WriteAll(&o.bufs, limit)
	clear(whole)
	o.bufs = whole
	return err
}

// acquireAt is acquire for a request of upstream, which names memory by its address alone.
func (c *serverConn) acquireAt(h *upstream.Header) (*region, []byte, frame.Reason) {
	if why := h.Check(); why != frame.ReasonNone {
		return nil, nil, why
	}
	kind := transport.Read
	if h.Op == upstream.Write {
		kind = transport.Write
	}
	r, mem, why := c.n.regions.AcquireAt(kind, h.Addr, h.Size, c)
	return r, mem, frame.ReasonOf(why)
}

// buffers lists the regions that peers may use, by address.
func (n *node) buffers(name string) []transport.Buffer {
	out := []transport.Buffer{}
	for r := range n.regions.All() {
		if r.Access() != transport.AccessLocal {
			out = append(out, transport.Buffer{Name: name, Addr: uint64(r.Addr()), Length: r.Size()})
		}
	}
	return out
}
