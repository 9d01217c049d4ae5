package file

import (
	"time"

	"github.com/mooncake-go/mooncake/plugins/tier-file/internal/record"
	"github.com/mooncake-go/mooncake/sdk/tier"
)

// left returns how many bytes of an operation in a queue have not started.
func (o *op) left() uint64 {
	if !o.begun {
		return o.bytes
	}
	return o.hi - o.next
}

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
