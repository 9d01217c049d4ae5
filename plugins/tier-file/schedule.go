package file

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/mooncake-go/mooncake/plugins/tier-file/internal/aio"
	"github.com/mooncake-go/mooncake/plugins/tier-file/internal/record"
	"github.com/mooncake-go/mooncake/sdk/tier"
)

// pump starts as many pieces as may be in flight. Called with the lock held.
func (t *fileTier) pump() {
	if t.state != running && t.state != stopping {
		return
	}
	for t.step() {
	}
}

// step starts one piece, urgent reads first. It reports whether another may follow.
func (t *fileTier) step() bool {
	if e := t.queues.urgent.Front(); e != nil && t.mayRead() {
		return t.launch(e.Value.(*op)) // Without staging memory, nothing else takes what becomes free.
	}
	if e := t.queues.reads.Front(); e != nil && t.mayRead() && t.launch(e.Value.(*op)) {
		return true
	}
	if e := t.queues.writes.Front(); e != nil && !t.wiping && t.mayWrite(e.Value.(*op)) {
		return t.launch(e.Value.(*op))
	}
	return false
}

// mayRead leaves two requests of a shallow engine to writes.
func (t *fileTier) mayRead() bool {
	return t.flight.pieces[0] < uint64(min(maxReads, t.engine.Depth()-2))
}

func (t *fileTier) mayWrite(o *op) bool {
	f := &t.flight
	most := min(maxWrites, t.engine.Depth()/2)
	if f.pieces[0] > 0 {
		most = min(most, maxWritesBeside)
	}
	if f.pieces[1] >= uint64(most) {
		return false
	}
	if f.urgent == 0 {
		return true
	}
	// While readers wait, writes get a quarter of the bytes in flight.
	writes := f.bytes[1] + min(o.left(), pieceBytes) + record.Page
	return writes*4 <= f.bytes[0]+writes || (f.bytes[1] == 0 && time.Since(o.since) > patience)
}

// launch starts the next piece of an operation that is at the front of its queue. false says that
// there is no staging memory now.
func (t *fileTier) launch(o *op) bool {
	if !o.begun {
		before := o.left()
		if err := t.begin(o); err != nil {
			t.fail(o, err)
			return true
		}
		t.flight.ahead(o, int64(o.left())-int64(before))
	}
	p := o.cut()
	if !t.stage(p) {
		return false
	}
	way := o.way()
	t.flight.pieces[way]++
	t.flight.bytes[way] += p.bytes()
	t.flight.ahead(o, int64(p.lo)-int64(p.hi))
	o.next = max(o.next, p.hi)
	if p.head {
		o.head = headSent
	}
	o.open++
	if o.next == o.hi && o.head != headReady && (o.head == headSent || o.Kind == tier.Write) {
		o.in.Remove(o.queued)
		o.queued = nil
	}
	if o.Kind == tier.Write {
		o.copying++
		t.work <- p // It has space for all pieces in flight.
	} else {
		t.submit(p)
	}
	return true
}

// stage takes the staging memory of a piece. Reads and writes leave some to each other.
func (t *fileTier) stage(p *piece) bool {
	n, way := p.staged(), p.op.way()
	share := t.staging.size / 4 * 3
	if way == 1 {
		share = t.staging.size / 2
	}
	if n == 0 {
		return true
	}
	if t.flight.staged[way]+n > share {
		return false
	}
	p.buf = t.staging.get(n)
	t.flight.staged[way] += uint64(len(p.buf))
	return p.buf != nil
}

// endPiece accounts for a piece that is over.
func (t *fileTier) endPiece(p *piece) {
	way := p.op.way()
	t.flight.pieces[way]--
	t.flight.bytes[way] -= p.bytes()
	t.flight.staged[way] -= uint64(len(p.buf))
	t.staging.put(p.buf)
	p.buf = nil
	p.op.open--
	t.settle(p.op)
}

// submit passes a piece to the engine.
func (t *fileTier) submit(p *piece) {
	o := p.op
	f, off := t.files.place(o.addr)
	if !p.head {
		off += record.Page + int64(p.lo)
	}
	r := &aio.Request{Write: o.Kind == tier.Write, FD: f.fd, Off: off}
	if len(p.buf) > 0 {
		r.Bufs = append(r.Bufs, p.buf)
	}
	if p.touches() {
		o.kernel++
		parts(o.Local, p.lo-o.Offset, p.hi-o.Offset, func(b []byte) { r.Bufs = append(r.Bufs, b) })
	}
	p.since = time.Now()
	t.flight.oldest[p] = struct{}{}
	t.flight.rates[o.way()].begin(p.since)
	r.Done = func(err error) {
		if !t.files.direct {
			_ = unix.Fadvise(f.fd, off, int64(p.bytes()), unix.FADV_DONTNEED)
		}
		if r.Write {
			f.dirty.Store(true)
		}
		t.moved(p, err)
	}
	t.engine.Submit(r)
}

// moved takes a piece back from the engine.
func (t *fileTier) moved(p *piece, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	o := p.op
	delete(t.flight.oldest, p)
	t.flight.rates[o.way()].end(time.Now(), p.bytes())
	if p.touches() {
		o.kernel--
	}
	if err != nil {
		err = t.fault(o, err)
		if o.err == nil {
			o.err = err
		}
	}
	switch {
	case o.err != nil && o.Kind == tier.Read:
		t.failRead(o)
		t.endPiece(p)
	case o.err != nil:
		t.fail(o, o.err)
		t.endPiece(p)
	case o.Kind == tier.Write:
		t.endPiece(p)
	default:
		o.copying++
		t.work <- p // It has space for all pieces in flight.
	}
	t.pump()
}
