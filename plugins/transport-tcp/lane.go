package tcp

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/x/busypoll"
)

const (
	// maxPending bounds the requests in flight on one lane.
	maxPending = 128
	// minShare is how many bytes a lane to a near peer may have in flight whatever its share is.
	minShare = 256 << 10
)

// lane is one connection to the peer and the two goroutines that work it: run, which
// connects and then writes, and one that reads. Fields below conn are guarded by path.mu,
// except where a goroutine is named.
type lane struct {
	p        *path
	conn     net.Conn
	gauge    gauge
	greeted  uint64 // what the gauge said when the lane came up
	in       source // of the reader
	maxSlice int
	depth    int           // requests that may be in flight
	stall    time.Duration // longest wait for an answer, or the next bytes of it
	idle     time.Duration
	checks   bool

	up       bool // connected and not yet at its end
	err      error
	slots    [maxPending]*part
	free     []uint16 // free slots
	serial   uint64   // makes request ids of one slot different
	inflight int64    // bytes of requests in flight
	window   int64    // the most of them to a far peer
	parked   bool     // the writer waits for wake
	wake     chan struct{}
	lastUsed time.Time
	proven   bool // an answer came, so the backoff may start anew

	quietSince time.Time // the last time something arrived, or began to be awaited
	readBy     time.Time // the read deadline that is set
	readAt     mark      // of the gauge, when it was set
	taken      taken
	writing    bool
	moving     bool // the reader stores a payload
	hearing    bool // the writer failed; the reader gets what the peer said before
	renounced  bool // the peer said that it carries out nothing that it has not answered

	gone atomic.Bool // not up any more, for readers that do not hold path.mu

	// sending is the right to use w: that of run, or of a Submit while run is parked. It comes
	// before path.mu.
	sending sync.Mutex
	w       laneWriter
	r       laneReader // of the reader
	a       attention
}

// kick finds a lane for work that waits, or makes one. path.mu is held.
func (p *path) kick() {
	if p.queue.head == nil || p.Closed() {
		return
	}
	var best *lane
	for _, l := range p.lanes {
		if l.parked && l.hasRoom() && (best == nil || l.inflight < best.inflight) {
			best = l
		}
	}
	wanted := len(p.lanes)
	if best == nil || best.inflight >= p.least() {
		wanted = p.wanted()
	}
	if best != nil && wanted <= len(p.lanes) {
		best.rouse()
		return
	}
	for _, l := range p.lanes {
		if !l.parked && l.inflight < p.least() && l.hasRoom() {
			return // Its writer runs and will look at the queue next.
		}
	}
	for len(p.lanes) < wanted {
		l := &lane{p: p, wake: make(chan struct{}, 1)}
		p.lanes = append(p.lanes, l)
		p.dialling++
		p.lanesDone.Add(1)
		go l.run()
	}
	if best != nil {
		best.rouse()
	}
}

// hasRoom reports whether the lane may take more.
func (l *lane) hasRoom() bool {
	return l.up && !l.hearing && len(l.free) > 0 && (l.inflight == 0 || l.inflight < l.share()) && !l.silent(time.Now())
}

// owed reports whether the peer owes an answer.
func (l *lane) owed() bool { return len(l.free) < l.depth }

// silent reports whether the lane owes answers and nothing has arrived for a while. The
// peer answers in order: whatever is sent after a request that it does not answer waits
// behind it, so new work goes elsewhere.
func (l *lane) silent(now time.Time) bool {
	return l.owed() && now.Sub(l.quietSince) > l.p.n.cfg.StallTimeout/8
}

// rouse wakes the writer.
func (l *lane) rouse() {
	l.parked = false
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// run is the life of a lane.
func (l *lane) run() {
	p := l.p
	defer p.lanesDone.Done()
	if l.connect() {
		stats := &p.n.stats
		stats.connsOut.Add(1)
		read := make(chan struct{})
		go func() { defer close(read); l.fail(l.readAny()) }()
		err := l.write()
		if err != nil {
			l.hearOut()
			<-read
		}
		l.fail(err)
		<-read
		stats.connsOut.Add(-1)
	}
	l.sending.Lock() // A goroutine that still sends uses memory of operations.
	defer l.sending.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	l.reclaim()
}

// connect makes the connection, as long as there is work for it.
func (l *lane) connect() bool {
	p := l.p
	for {
		p.mu.Lock()
		if p.Closed() || p.queue.head == nil {
			p.dialling--
			p.mu.Unlock()
			return false
		}
		pause := time.Until(p.retry.NotBefore)
		p.mu.Unlock()
		if pause > 0 {
			timer := time.NewTimer(pause)
			select {
			case <-timer.C:
			case <-p.ctx.Done():
				timer.Stop()
			}
			continue
		}
		began := time.Now()
		conn, h, failure := p.dial()
		p.mu.Lock()
		switch {
		case failure != nil:
			p.noteDialFailure(failure, began)
		case p.Closed():
			_ = conn.Close()
		default:
			l.begin(conn, &h)
			p.mu.Unlock()
			return true
		}
		p.mu.Unlock()
	}
}

// begin takes a connection into use. path.mu is held.
func (l *lane) begin(conn net.Conn, h *hello) {
	p, cfg := l.p, &l.p.n.cfg
	l.conn, l.in, l.up, l.lastUsed, l.window = conn, sourceOf(conn, cfg.BusyPoll), true, time.Now(), farWindow
	l.gauge.open(conn)
	l.greeted = l.gauge.moved()
	l.maxSlice, l.depth, l.stall = min(cfg.SliceBytes, int(h.MaxFrame)), maxPending, cfg.StallTimeout
	if p.peer.Upstream != 0 {
		l.depth, l.stall = 1, cfg.UpstreamStatusTimeout
	}
	// Leave well before the peer would close, so that no request meets a closing end.
	l.idle = max(min(cfg.IdleTimeout, h.Idle/2), time.Millisecond)
	l.checks = cfg.Checksum || h.Flags&flagChecksum != 0
	l.w.pace = pacer{conn: conn, stall: cfg.StallTimeout, stats: &p.n.stats, gauge: &l.gauge}
	if sc, ok := conn.(syscall.Conn); ok {
		l.w.lookout, _ = busypoll.NewLookout(sc, cfg.BusyPoll, func() bool { return len(l.wake) > 0 })
		l.a.open(l, sc, cfg.BusyPoll)
	}
	l.free = make([]uint16, l.depth)
	for i := range l.free {
		l.free[i] = uint16(l.depth - 1 - i)
	}
	p.dialling--
	if _, least := l.gauge.rtt(); p.peer.Upstream == 0 {
		p.place(least)
	}
	p.retry.Connected()
	p.kick() // More lanes may be wanted.
}

// silence is how long the peer may owe an answer and make no progress.
func (l *lane) silence() time.Duration {
	if l.p.peer.Upstream != 0 {
		return l.stall
	}
	return l.gauge.stall(l.stall)
}

// fail ends the lane with err; nil is an orderly end.
func (l *lane) fail(err error) {
	l.p.mu.Lock()
	defer l.p.mu.Unlock()
	l.die(err)
}

// die closes the connection, once. reclaim settles the operations in flight, when neither
// goroutine touches memory any more. path.mu is held.
func (l *lane) die(err error) {
	if !l.up {
		return
	}
	l.up, l.err = false, err
	l.gone.Store(true)
	l.rouse() // First: it ends a poll that Close would wait for.
	_ = l.conn.Close()
}

// forsake is called when an operation no longer waits for the answer to one of its parts.
// An upstream lane does nothing else but wait for it, so a new connection is cheaper. path.mu
// is held.
func (l *lane) forsake(why error) {
	if l.p.peer.Upstream != 0 {
		l.die(errs.WithClass(errs.ClassTransientPath, l.p.Name(), fmt.Errorf("connection given up with its request: %w", why)))
	}
}

// stop ends the move of a part that the lane works with, whose operation has failed.
func (l *lane) stop(pt *part, why error) {
	if pt.state == partReceiving && l.p.peer.Upstream == 0 {
		pt.cancelled, l.readBy = true, time.Time{}
		_ = l.conn.SetReadDeadline(time.Unix(1, 0)) // Wakes the reader; it goes on without storing.
		return
	}
	// A frame that was begun cannot be taken back.
	l.die(errs.WithClass(errs.ClassTransientPath, l.p.Name(), fmt.Errorf("connection given up in the middle of a frame: %w", why)))
}

// moved is how many bytes the lane carried, both ways and with their headers. path.mu is held.
func (l *lane) moved() uint64 {
	if l.conn == nil {
		return 0
	}
	return l.gauge.moved() - l.greeted
}

// reclaim settles the operations that are left and leaves the path. path.mu is held, both goroutines are
// at their end.
func (l *lane) reclaim() {
	p := l.p
	lost := 0
	for i, pt := range l.slots {
		if pt == nil {
			continue
		}
		lost++
		l.slots[i] = nil
		doubt := pt.write && !pt.answered && !l.renounced
		err := l.cutError()
		if pt.answered {
			err = pt.answer
		}
		p.settle(pt, err, doubt)
		p.freeParts = append(p.freeParts, pt)
	}
	p.carried += l.moved()
	for i, x := range p.lanes {
		if x == l {
			p.lanes = append(p.lanes[:i], p.lanes[i+1:]...)
			break
		}
	}
	if lost > 0 && !p.Closed() {
		p.n.stats.connsCut.Add(1)
	}
	if l.conn != nil && !l.proven && l.err != nil {
		p.retry.Failed(l.err, time.Now()) // A peer that takes connections and drops them.
	}
	p.kick()
}

// errQuiet ends a connection whose peer owes answers and sends nothing.
var errQuiet = errors.New("the peer stopped answering")

// cutError is what the operations of a lost connection fail with.
func (l *lane) cutError() error {
	err := l.err
	if err == nil {
		err = errors.New("connection closed")
	}
	class := errs.ClassOf(err)
	if class == errs.ClassUnknown {
		class = errs.ClassTransientPath
	}
	return &errs.Error{Code: errs.TransferFail, Class: class, Op: l.p.Name(), Err: fmt.Errorf("connection lost: %w", err)}
}
