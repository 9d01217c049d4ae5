package tcp

import (
	"sync"
	"syscall"
	"time"

	"github.com/mooncake-go/mooncake/sdk/transport"
	"github.com/mooncake-go/mooncake/sdk/x/busypoll"
)

// The goroutine that waits for an answer sends the request itself, where that is short, and polls for
// the answer. Otherwise two goroutines of the lane would have to be woken, and each may wake another
// thread, too.

const (
	// directBytes and directOps are the most that a Submit sends itself. It takes no longer for
	// it than another goroutine would take to wake up.
	directBytes = 64 << 10
	directOps   = 8
)

// attention is the state of the goroutines that wait for an answer of a lane.
type attention struct {
	sender *busypoll.Sender // used with lane.sending held; nil for a connection that is no socket

	mu      sync.Mutex // held while a goroutine polls
	lookout *busypoll.Lookout
	stop    func() bool
}

// open makes the state of a connection.
func (a *attention) open(l *lane, conn syscall.Conn, poll time.Duration) {
	sender, err := busypoll.NewSender(conn)
	if err != nil {
		return
	}
	lookout, err := busypoll.NewLookout(conn, poll, func() bool { return l.gone.Load() || a.stop() })
	if err != nil {
		return
	}
	a.sender, a.lookout = sender, lookout
}

// poll implements transport.Extras.Poll.
func (p *path) poll(stop func() bool) {
	l := p.expecting()
	if l == nil {
		return
	}
	l.a.stop = stop
	l.a.lookout.Wait()
	l.a.stop = nil
	l.a.mu.Unlock()
}

// expecting returns a lane of which an answer has yet to begin, with a.mu held; nil where there is
// none, or other goroutines poll.
func (p *path) expecting() *lane {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.attended = true
	for _, l := range p.lanes {
		if l.up && l.a.lookout != nil && l.owed() && !l.moving && !l.writing && l.a.mu.TryLock() {
			return l
		}
	}
	return nil
}

// direct sends what waits, where that is short and a lane has nothing else to do. Only where
// a goroutine polls for answers: the lane's writer sends otherwise. path.mu is held, and released
// meanwhile.
func (p *path) direct() {
	if !p.attended || p.Closed() || p.peer.Upstream != 0 || !p.short() {
		return
	}
	l := p.vacant()
	if l == nil {
		return
	}
	defer l.sending.Unlock()
	l.parked = false // A goroutine that comes now finds that the queue is checked below.
	if l.fill(time.Now()) {
		p.mu.Unlock()
		l.sendDirect()
		p.mu.Lock()
	}
	if l.parked = true; l.w.rest {
		l.rouse()
	}
}

// short reports whether something waits, and little enough for direct.
func (p *path) short() bool {
	ops, bytes := 0, 0
	for o := p.queue.head; o != nil; o = o.next {
		if o.Kind == transport.Write {
			bytes += len(o.Local) - o.cut
		}
		if ops++; ops > directOps || bytes > directBytes || len(o.Local) > p.n.cfg.SliceBytes {
			return false
		}
	}
	return ops > 0
}

// vacant returns a lane that owes nothing, with sending held; nil where there is none.
func (p *path) vacant() *lane {
	for _, l := range p.lanes {
		if l.parked && l.a.sender != nil && !l.owed() && l.hasRoom() && l.sending.TryLock() {
			return l
		}
	}
	return nil
}

// sendDirect sends the train as far as the socket takes it. The rest is the writer's, as is what to
// do about an error, which it meets again.
func (l *lane) sendDirect() {
	w := &l.w
	l.pack()
	l.p.n.stats.writeCalls.Add(1)
	err := l.a.sender.Send(&w.bufs)
	if w.rest = err != nil || len(w.bufs) > 0; w.rest {
		return
	}
	clear(w.vec[:w.used])
	l.sent(nil)
}
