package fragment

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/core/transfer"
	"github.com/mooncake-go/mooncake/sdk/transport"
	"github.com/mooncake-go/mooncake/sdk/x/crc32c"
)

// GrainOf returns the size of the grains of an object and their number. A small object is its only
// grain.
func GrainOf(size uint64) (grain uint64, n int) {
	if n = model.GrainCount(size); n == 0 {
		return size, 1
	}
	return model.GrainSize(size), n
}

// Combine returns the checksum of an object from those of all its grains.
func Combine(grains []uint32, size uint64) uint32 {
	if len(grains) == 1 {
		return grains[0]
	}
	return model.CombineGrains(grains, size)
}

// Moved says which bytes of an object a request moves, and has the checksums of their grains. The
// zero value is a request whose checksums are not needed.
type Moved struct {
	transport.Grains
	off uint64 // of the first byte in the object
	at  int    // index of its first grain, as Lay counts
}

// Copied is a copy of the bytes from off on, whose first grain has index at and begins lead bytes before
// them, with its checksums.
func Copied(off uint64, at, lead, grain int, sums []uint32) Moved {
	return Moved{Grains: transport.Grains{Sums: sums, Lead: lead, Size: grain}, off: off, at: at}
}

// Fold takes the checksums of n bytes that were moved into those of whole grains, which are the
// checksums of their ranges so far, in any order. all begins with grain first of the object.
func (m *Moved) Fold(all []uint32, first uint64, n int, size uint64) {
	m.fold(all, int(m.off/uint64(m.Size)-first), n, size)
}

// FoldAsLaid is Fold into the grains as Lay counts them.
func (m *Moved) FoldAsLaid(all []uint32, n int, size uint64) { m.fold(all, m.at, n, size) }

func (m *Moved) fold(all []uint32, at, n int, size uint64) {
	grain, off := uint64(m.Size), m.off
	for i, c := range m.Sums {
		border := min((off/grain+1)*grain, size)
		end := min(border, m.off+uint64(n))
		if off = end; end == border {
			all[at+i] ^= c // Nothing of the grain follows.
			continue
		}
		all[at+i] ^= crc32c.Shift(c, border-end)
	}
}

// Layout counts the grains of fragments, one after the other. Fragments that follow each other in the
// object share the grain in which they meet; others have grains of their own, also of the same bytes.
type Layout struct {
	Grain uint64
	// N is how many grains the fragments so far have.
	N       int
	base    int
	end     uint64
	started bool
}

// Next returns the index of the first grain of a fragment. The others follow.
func (l *Layout) Next(f *store.Fragment) int {
	first := int(f.Offset / l.Grain)
	if !l.started || f.Offset != l.end {
		l.base, l.started = l.N-first, true
	}
	l.end = f.Offset + uint64(len(f.Mem))
	l.N = l.base + int((l.end-1)/l.Grain) + 1
	return l.base + first
}

// Grains computes the checksums of the grains of what requests move. It is pooled.
type Grains struct {
	// Of has an entry for each request from the first one on that it made.
	Of    []Moved
	mem   []uint32
	units []unit
	next  atomic.Int64
	wg    sync.WaitGroup
}

// unit is memory whose checksums are to be computed.
type unit struct {
	transport.Grains
	mem []byte
}

// maxKept bounds the checksums whose memory later calls use.
const maxKept = 1 << 16

// Reset forgets all requests, whose checksums are lost.
func (g *Grains) Reset() {
	clear(g.Of)
	clear(g.units)
	g.Of, g.units = g.Of[:0], g.units[:0]
	if g.mem = g.mem[:0]; cap(g.mem) > maxKept {
		g.mem = nil
	}
}

// Restart forgets the requests. Memory that was taken stays in use.
func (g *Grains) Restart() {
	clear(g.Of)
	g.Of = g.Of[:0]
}

// Abandon is Reset after a transfer that may still store checksums.
func (g *Grains) Abandon() {
	g.mem = nil
	g.Reset()
}

// Take returns memory for n checksums, which are 0, until Reset.
func (g *Grains) Take(n int) []uint32 {
	if cap(g.mem)-len(g.mem) < n {
		g.mem = make([]uint32, 0, max(n, 2*cap(g.mem), 256)) // What was taken stays where it is.
	}
	at := len(g.mem)
	g.mem = g.mem[:at+n]
	out := g.mem[at : at+n : at+n]
	clear(out)
	return out
}

// Requests is the function Requests for fragments whose checksums are needed, grain by grain. The order
// is that of the fragments. l is the layout of the fragments of the object before them. ask has the
// transfer compute the checksums where it can.
func (g *Grains) Requests(dst []transfer.Request, kind transport.OpKind, fs []store.Fragment, r *model.Replica, deadline time.Time, l Layout, ask bool) []transfer.Request {
	for len(g.Of) < len(dst) {
		g.Of = append(g.Of, Moved{})
	}
	grain := l.Grain
	for i := range fs {
		f := &fs[i]
		first := l.Next(f) - int(f.Offset/grain)
		for off, stripe := range r.Parts {
			lo, hi := max(f.Offset, off), min(f.Offset+uint64(len(f.Mem)), off+stripe.Size)
			if lo >= hi {
				continue
			}
			lead := int(lo % grain)
			m := Moved{off: lo, at: first + int(lo/grain)}
			m.Grains = transport.Grains{Sums: g.Take(crc32c.GrainsOf(int(hi-lo), lead, int(grain))), Lead: lead, Size: int(grain)}
			req := transfer.Request{
				Kind: kind, Local: f.Mem[lo-f.Offset : hi-f.Offset], Peer: stripe.Endpoint, Addr: stripe.Address + (lo - off), Deadline: deadline, Grant: stripe.Permit,
			}
			if ask {
				req.Grains = m.Grains
			}
			g.Of, dst = append(g.Of, m), append(dst, req)
		}
	}
	return dst
}

// Need notes that Compute has to compute the checksums of request i, whose memory is mem.
func (g *Grains) Need(i int, mem []byte) {
	for from := 0; from < len(mem); {
		to := g.Of[i].Border(from, from+parallelUnit, len(mem))
		part, _ := g.Of[i].Cut(from, to, len(mem))
		g.units = append(g.units, unit{part, mem[from:to]})
		from = to
	}
}

// parallelUnit is about how many bytes a core computes the checksums of at a time.
const parallelUnit = 1 << 20

// Compute computes the checksums that are needed, on several cores if they are of many bytes.
func (g *Grains) Compute() {
	total := 0
	for i := range g.units {
		total += len(g.units[i].mem)
	}
	g.next.Store(0)
	if total < parallelBytes || len(g.units) == 1 {
		g.work()
	} else {
		for range min(runtime.GOMAXPROCS(0), len(g.units)) {
			g.wg.Go(g.work)
		}
		g.wg.Wait()
	}
	clear(g.units)
	g.units = g.units[:0]
}

func (g *Grains) work() {
	for i := g.next.Add(1) - 1; i < int64(len(g.units)); i = g.next.Add(1) - 1 {
		u := &g.units[i]
		crc32c.SumGrains(u.Sums, u.mem, u.Lead, u.Size)
	}
}

// Cover appends fragments to dst that have all bytes of the grains in which fs lie: fs themselves and,
// between and around them, what is left of their grains, in memory of scratch. Layout counts their grains.
func Cover(dst, fs []store.Fragment, grain, size uint64, scratch func(n int) []byte) []store.Fragment {
	gap := func(lo, hi uint64) {
		if lo < hi {
			dst = append(dst, store.Fragment{Offset: lo, Mem: scratch(int(hi - lo))})
		}
	}
	border := func(at uint64) uint64 { return min((at+grain-1)/grain*grain, size) }
	end := uint64(0) // of what is covered; on a border before the first
	for _, f := range fs {
		if f.Offset >= end && f.Offset < border(end) { // in the grain in which the one before it ends
			gap(end, f.Offset)
		} else {
			gap(end, border(end))
			gap(f.Offset/grain*grain, f.Offset)
		}
		dst = append(dst, f)
		end = f.Offset + uint64(len(f.Mem))
	}
	gap(end, border(end))
	return dst
}
