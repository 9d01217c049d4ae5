package file

import (
	"time"

	"github.com/mooncake-go/mooncake/plugins/tier-file/internal/record"
	"github.com/mooncake-go/mooncake/sdk/tier"
)

const (
	// pieceBytes is the most of a value that one read or write of the engine moves, beside a header.
	// It is a multiple of all grains.
	pieceBytes = record.MaxGrain
	// maxReads and maxWrites are how many pieces are in flight. Writes have fewer beside reads.
	maxReads        = 32
	maxWrites       = 8
	maxWritesBeside = 4
	// patience is how long urgent reads may keep all writes waiting.
	patience = 200 * time.Millisecond
)

// piece is one read or write of the engine.
type piece struct {
	op     *op
	lo, hi uint64 // the range of the value
	head   bool   // the header is in front of it
	direct bool   // the value is in Local
	buf    []byte // staging memory: the header if there is one, then the value unless it is direct
	since  time.Time
}

// bytes returns how much the engine moves.
func (p *piece) bytes() uint64 {
	n := (p.hi - p.lo + record.Page - 1) &^ (record.Page - 1)
	if p.head {
		n += record.Page
	}
	return n
}

// staged returns how much staging memory the piece needs.
func (p *piece) staged() uint64 {
	switch {
	case !p.direct:
		return p.bytes()
	case p.head:
		return record.Page
	}
	return 0
}

// touches reports whether the kernel reads or writes Local by it.
func (p *piece) touches() bool { return p.direct && p.hi > p.lo }

// value returns the staging memory behind the header.
func (p *piece) value() []byte {
	if p.head {
		return p.buf[record.Page:]
	}
	return p.buf
}

// flight counts what is in flight and in the queues.
type flight struct {
	pieces, bytes, staged [2]uint64 // of reads and writes: pieces that started and did not end
	queued                [3]int64  // bytes that did not start: urgent reads, reads, writes
	urgent                int       // urgent reads that did not end
	oldest                map[*piece]struct{}
	rates                 [2]rate
}

// way is 0 for reads, 1 for writes.
func (o *op) way() int {
	if o.Kind == tier.Write {
		return 1
	}
	return 0
}

// turn is the index of an operation's queue in flight.queued.
func (o *op) turn() int {
	switch {
	case o.Kind == tier.Write:
		return 2
	case o.Urgent:
		return 0
	}
	return 1
}

// ahead counts bytes that an operation has in its queue.
func (f *flight) ahead(o *op, bytes int64) { f.queued[o.turn()] += bytes }

// wait estimates how long an operation waits for its turn: what is in flight and before it in the
// queues, at the rate of late. It is 0 where nothing is, so that a storage that was slow is tried
// again.
func (f *flight) wait(o *op) time.Duration {
	bytes := f.bytes[0] + f.bytes[1]
	for i := range o.turn() + 1 {
		bytes += uint64(f.queued[i])
	}
	perSecond := f.rates[o.way()].perSecond
	if bytes == 0 || perSecond == 0 {
		return 0
	}
	return time.Duration(float64(bytes+o.bytes) / perSecond * float64(time.Second))
}

// rate measures how many bytes a second the storage moves while it is busy.
type rate struct {
	busy      int
	since     time.Time
	bytes     uint64
	time      time.Duration
	perSecond float64
}

func (r *rate) begin(now time.Time) {
	if r.busy == 0 {
		r.since = now
	}
	r.busy++
}

func (r *rate) end(now time.Time, bytes uint64) {
	r.time += now.Sub(r.since)
	r.since = now
	r.busy--
	r.bytes += bytes
	if r.time < 50*time.Millisecond || r.bytes < 1<<20 {
		return
	}
	recent := float64(r.bytes) / r.time.Seconds()
	if r.perSecond == 0 {
		r.perSecond = recent
	}
	r.perSecond = (r.perSecond + recent) / 2
	r.bytes, r.time = 0, 0
}

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

// cut returns the next piece of an operation.
func (o *op) cut() *piece {
	p := &piece{op: o, lo: o.next, hi: min(o.hi, (o.next+pieceBytes)&^(pieceBytes-1)), direct: o.direct}
	switch {
	case o.Kind == tier.Read && o.head == headWaits:
		p.head = true
		if o.lo > 0 { // It is not beside the range.
			p.hi = p.lo
		}
	case o.Kind == tier.Write && o.Record.Size <= pieceBytes:
		p.head = true
	case o.Kind == tier.Write && o.head == headReady:
		p.lo, p.hi, p.head = 0, 0, true
	}
	return p
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

// handle is what a worker does with a piece.
func (t *fileTier) handle(p *piece) {
	if p.op.Kind == tier.Write {
		t.prepare(p)
	} else {
		t.verify(p)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.pump()
}

// parts calls do for the pieces of Local that hold a range, which begins at an offset of Local.
func parts(local [][]byte, from, to uint64, do func([]byte)) {
	for _, part := range local {
		n := uint64(len(part))
		if from < n {
			do(part[from:min(to, n)])
		}
		if to <= n {
			return
		}
		from, to = from-min(from, n), to-n
	}
}
