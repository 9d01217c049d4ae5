package tcp

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/mooncake-go/mooncake/plugins/transport-tcp/internal/frame"
	"github.com/mooncake-go/mooncake/plugins/transport-tcp/internal/socket"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/security"
	"github.com/mooncake-go/mooncake/sdk/x/busypoll"
	"github.com/mooncake-go/mooncake/sdk/x/transportkit"
)

const (
	// maxPending bounds the requests in flight on one connection.
	maxPending = 128
	// minShare is how many bytes a connection to a near peer may have in flight whatever its share
	// is.
	minShare = 256 << 10
)

const (
	// farRTT is the round trip from which a peer is far.
	farRTT = 5 * time.Millisecond
	// farShare is how many bytes are worth a connection of their own then.
	farShare = 128 << 10
	// farChunk is the size of a chunk then, and farWindow how many bytes a connection has in flight
	// until its first answer. From there on its window grows by what the peer has answered, as in
	// TCP's slow start, so that a connection which met losses does not hold work that another would
	// end sooner.
	farChunk  = 32 << 10
	farWindow = 2 * farChunk
	// A link is full when its round trips take half as long again as the least of them and fullRTT.
	fullRTT = 10 * time.Millisecond
)

// connection is one connection to the peer and the two goroutines that work it: run, which connects
// and then writes, and one that reads. Fields below conn are guarded by path.mu, except where a
// goroutine is named.
type connection struct {
	p        *path
	conn     net.Conn
	gauge    socket.Gauge
	greeted  uint64        // what the gauge said when the connection came up
	in       socket.Source // of the reader
	layer    *socket.Layer // nil without TLS
	term     *security.Term
	maxSlice int
	depth    int           // requests that may be in flight
	stall    time.Duration // longest wait for an answer, or the next bytes of it
	idle     time.Duration
	checks   bool

	up       bool // connected and not yet at its end
	err      error
	slots    [maxPending]*chunk
	free     []uint16 // free slots
	serial   uint64   // makes request ids of one slot different
	inflight int64    // bytes of requests in flight
	window   int64    // the most of them to a far peer
	waiting  bool     // the writer waits for wake
	wake     chan struct{}
	lastUsed time.Time
	proven   bool // an answer came, so the backoff may start anew

	quietSince time.Time   // the last time something arrived, or began to be awaited
	readBy     time.Time   // the read deadline that is set
	readAt     socket.Mark // of the gauge, when it was set
	taken      taken
	writing    bool
	moving     bool // the reader stores a payload
	hearing    bool // the writer failed; the reader gets what the peer said before
	renounced  bool // the peer said that it carries out nothing that it has not answered

	closedUnder bool // the peer closed it in place of an answer
	took        bool // and has taken all of the request

	gone atomic.Bool // not up any more, for readers that do not hold path.mu

	// sending is the right to use w. It belongs to run, or to a Submit while run is idle. It is
	// locked before path.mu.
	sending sync.Mutex
	w       sender
	r       receiver // of the reader
	poller  poller
}

// dialled is a connection with the peer's hello.
type dialled struct {
	net.Conn
	layer *socket.Layer // nil without TLS
	hello frame.Hello
}

// sender is the state of the goroutine that sends and holds connection.sending.
type sender struct {
	pace   socket.Pacer
	poller *busypoll.ReadPoller // nil for a connection that is not a socket
	batch  [frame.MaxBatch]frame.Header
	chunks [frame.MaxBatch]*chunk // of the batch; nil for a Read, which the writer must not touch
	count  int
	raw    [frame.MaxBatch * frame.Size]byte
	vec    [frame.MaxBatch + 1][]byte
	used   int // of vec
	bufs   net.Buffers
	rest   bool // bufs is what a Submit left of the batch
}

// receiver is the state of a connection's reading goroutine.
type receiver struct {
	in    [frame.MaxBatch * frame.Size]byte
	batch [frame.MaxBatch]frame.Header
}

// poller is the state of the goroutines that poll a connection for an answer.
type poller struct {
	sender *busypoll.Sender // guarded by connection.sending; nil for a connection that is not a socket

	mu     sync.Mutex // held while a goroutine polls
	poller *busypoll.ReadPoller
	stop   func() bool
}

// taken measures for how long the machine of a peer has had everything that it accepts from a
// connection.
type taken struct {
	moved, limited uint64
	since          time.Time // the last look at which the network had work to do; zero before one
}

// kick finds a connection for work that waits, or makes one. The caller holds path.mu.
func (p *path) kick() {
	if !p.hasWork() || p.Closed() {
		return
	}
	var best *connection
	for _, c := range p.conns {
		if c.waiting && c.hasSpace() && (best == nil || c.inflight < best.inflight) {
			best = c
		}
	}
	wanted := len(p.conns)
	if best == nil || best.inflight >= p.least() {
		wanted = p.wanted()
	}
	if best != nil && wanted <= len(p.conns) {
		best.rouse()
		return
	}
	for _, c := range p.conns {
		if !c.waiting && c.inflight < p.least() && c.hasSpace() {
			return // Its writer runs and will look at the queue next.
		}
	}
	for len(p.conns) < wanted {
		c := &connection{p: p, wake: make(chan struct{}, 1)}
		p.conns = append(p.conns, c)
		p.dialling++
		p.connsDone.Add(1)
		go c.run()
	}
	if best != nil {
		best.rouse()
	}
}

// hasSpace reports whether the connection may take more.
func (c *connection) hasSpace() bool {
	return c.up && !c.hearing && !c.spent() && !c.worn() && len(c.free) > 0 && (c.inflight == 0 || c.inflight < c.share()) && !c.silent(time.Now())
}

// worn reports whether the connection has carried as much as its keys are good for, or its certificates are to end.
// It ends once it owes nothing.
func (c *connection) worn() bool {
	return c.layer != nil && (c.layer.Carried() >= c.p.n.maxCarried || c.term.Leaving())
}

// depart has the connection end once it owes nothing.
func (c *connection) depart() {
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	c.invite()
	c.p.kick()
}

// owed reports whether the peer owes an answer.
func (c *connection) owed() bool { return len(c.free) < c.depth }

// silent reports whether the connection owes answers and nothing has arrived for a while. The peer
// answers in order: whatever is sent after a request that it does not answer waits behind it, so
// new work goes to other connections.
func (c *connection) silent(now time.Time) bool {
	return c.owed() && now.Sub(c.quietSince) > c.p.n.cfg.StallTimeout/8
}

// rouse wakes the writer.
func (c *connection) rouse() {
	c.waiting = false
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// run serves a connection from connect to close.
func (c *connection) run() {
	p := c.p
	defer p.connsDone.Done()
	if c.connect() {
		stats := &p.n.stats
		stats.connsOut.Add(1)
		c.term.OnLeave(c.depart)
		defer c.term.Done()
		read := make(chan struct{})
		go func() { defer close(read); c.fail(c.receiveAny()) }()
		err := c.write()
		if err != nil {
			c.hearOut()
			<-read
		}
		c.fail(err)
		<-read
		stats.connsOut.Add(-1)
	}
	c.sending.Lock() // A goroutine that still sends uses memory of operations.
	defer c.sending.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	c.reclaim()
}

// connect makes the connection, as long as there is work for it.
func (c *connection) connect() bool {
	p := c.p
	for {
		p.mu.Lock()
		if p.Closed() || !p.hasWork() {
			p.dialling--
			p.mu.Unlock()
			return false
		}
		notBefore := p.retry.NotBefore
		p.mu.Unlock()
		if transportkit.Pause(p.ctx, notBefore) {
			continue
		}
		began := time.Now()
		conn, failure := p.dial()
		p.mu.Lock()
		switch {
		case failure != nil:
			p.noteDialFailure(failure, began)
		case p.Closed():
			_ = conn.Close()
		default:
			c.begin(&conn)
			p.mu.Unlock()
			return true
		}
		p.mu.Unlock()
	}
}

// begin takes a connection into use. The caller holds path.mu.
func (c *connection) begin(d *dialled) {
	p, cfg, conn, h := c.p, &c.p.n.cfg, d.Conn, &d.hello
	c.conn, c.in, c.up, c.lastUsed, c.window = conn, socket.SourceOf(conn, cfg.BusyPoll), true, time.Now(), farWindow
	c.gauge.Open(conn)
	c.greeted = c.gauge.Moved()
	c.maxSlice, c.depth, c.stall = min(cfg.SliceBytes, int(h.MaxFrame)), maxPending, cfg.StallTimeout
	if p.peer.Upstream != 0 {
		c.depth, c.stall = 1, cfg.UpstreamStatusTimeout
	}
	// Leave well before the peer would close, so that no request meets a closing end.
	c.idle = max(min(cfg.IdleTimeout, h.Idle/2), time.Millisecond)
	c.checks = cfg.Checksum || h.Flags&frame.FlagChecksum != 0
	c.w.pace = socket.NewPacer(conn, nil, cfg.StallTimeout, &c.gauge, &p.n.stats.readCalls, &p.n.stats.writeCalls)
	if sc, ok := conn.(syscall.Conn); ok {
		c.w.poller, _ = busypoll.NewReadPoller(sc, cfg.BusyPoll, func() bool { return len(c.wake) > 0 })
		c.poller.open(c, sc, cfg.BusyPoll)
	}
	if d.layer != nil {
		c.layer, c.in, c.poller.sender = d.layer, d.layer, nil // What it would send is not sealed.
		c.w.pace.Secure(d.layer)
		c.term = p.n.trust.bound(d.layer, true, c.fail)
	}
	c.free = make([]uint16, c.depth)
	for i := range c.free {
		c.free[i] = uint16(c.depth - 1 - i)
	}
	p.dialling--
	if _, least := c.gauge.Rtt(); p.peer.Upstream == 0 {
		p.place(least)
	}
	p.retry.Connected()
	p.kick() // More connections may be wanted.
}

// silence is how long the peer may owe an answer and make no progress.
func (c *connection) silence() time.Duration {
	if c.p.peer.Upstream != 0 {
		return c.stall
	}
	return c.gauge.Stall(c.stall)
}

// fail ends the connection with err; nil is an orderly end.
func (c *connection) fail(err error) {
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	c.die(err)
}

// die closes the connection, once. reclaim settles the operations in flight, when neither goroutine
// touches memory any more. The caller holds path.mu.
func (c *connection) die(err error) {
	if !c.up {
		return
	}
	c.up, c.err = false, err
	c.gone.Store(true)
	c.rouse() // First: it ends a poll that Close would wait for.
	_ = c.conn.Close()
}

// abandon is called when an operation no longer waits for the answer to one of its chunks. An
// upstream connection can do nothing else until that answer arrives, so a new connection is
// cheaper. The caller holds path.mu.
func (c *connection) abandon(why error) {
	if c.p.peer.Upstream != 0 {
		c.die(errs.WithClass(errs.ClassTransientPath, c.p.Name(), fmt.Errorf("connection given up with its request: %w", why)))
	}
}

// stop ends the move of a chunk that the connection works with, whose operation has failed.
func (c *connection) stop(ch *chunk, why error) {
	if ch.state == chunkReceiving && c.p.peer.Upstream == 0 {
		ch.cancelled, c.readBy = true, time.Time{}
		_ = c.conn.SetReadDeadline(time.Unix(1, 0)) // Wakes the reader; it goes on without storing.
		return
	}
	// A frame that has begun must be sent to its end.
	c.die(errs.WithClass(errs.ClassTransientPath, c.p.Name(), fmt.Errorf("connection given up in the middle of a frame: %w", why)))
}

// moved returns how many bytes the connection has carried, in both directions and with their
// headers. The caller holds path.mu.
func (c *connection) moved() uint64 {
	if c.conn == nil {
		return 0
	}
	return c.gauge.Moved() - c.greeted
}

// reclaim settles the remaining operations and leaves the path. The caller holds path.mu, and both
// goroutines are about to end.
func (c *connection) reclaim() {
	p := c.p
	lost := 0
	for i, ch := range c.slots {
		if ch == nil {
			continue
		}
		c.slots[i] = nil
		if c.sendAgain(ch) {
			continue
		}
		lost++
		indeterminate := ch.write && !ch.answered && !c.renounced
		err := c.cutError()
		if ch.answered {
			err = ch.answer
		}
		p.settle(ch, err, indeterminate)
		p.freeChunks = append(p.freeChunks, ch)
	}
	p.carried += c.moved()
	for i, x := range p.conns {
		if x == c {
			p.conns = append(p.conns[:i], p.conns[i+1:]...)
			break
		}
	}
	if lost > 0 && !p.Closed() {
		p.n.stats.connsCut.Add(1)
	}
	if c.conn != nil && !c.proven && c.err != nil {
		p.retry.Failed(c.err, time.Now()) // The peer accepts connections and drops them.
	}
	p.kick()
}

// errQuiet ends a connection whose peer owes answers and sends nothing.
var errQuiet = errors.New("the peer stopped answering")

// cutError returns the error of the operations of a lost connection.
func (c *connection) cutError() error {
	err := c.err
	if err == nil {
		err = errors.New("connection closed")
	}
	class := errs.ClassOf(err)
	if class == errs.ClassUnknown {
		class = errs.ClassTransientPath
	}
	return &errs.Error{Code: errs.TransferFail, Class: class, Op: c.p.Name(), Err: fmt.Errorf("connection lost: %w", err)}
}
