package ledger

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/mooncake-go/mooncake/sdk/transport"
)

// Guard lets peers write into a segment where its ledger has an unfinished put, and nowhere else. It implements
// transport.Guard. The zero value lets every write begin, until Enforce, and has no puts, until Log.SetGuard.
//
// What it guarantees: a write begins only if its range lies within one extent of a put that has begun, and neither
// ended nor been given up, in the ledger; and after Settle no write is in progress that began in memory of a put that
// is gone. The master gives that memory to another put only after the node has acknowledged that it is gone, so if the
// node calls Settle before it acknowledges, no write reaches memory that was given to another put after it began.
//
// What it does not guarantee: a write does not name its put. One that comes late, after its memory was given to another
// put, is let through if its range lies within one extent of that put and that put is unfinished. The end of a put
// reaches the ledger a moment after the put was answered, and until then the put may write. One whose writer did not wait
// for its bytes to arrive (Unacknowledged) may write until Land.
//
// Safe for concurrent use.
type Guard struct {
	mu       sync.Mutex
	enforced bool
	of       any // the Log whose puts these are
	puts     map[Put]*unfinished
	extents  extentIndex // of the puts that may write
	writes   []write     // those in progress: WriteID is the index plus 1
	free     []transport.WriteID
	astray   int           // writes in progress of puts that are gone
	settled  chan struct{} // closed and forgotten when astray becomes 0; nil if no goroutine waits
	late     int           // puts that are late
	landed   chan struct{} // closed and forgotten when late becomes 0; nil if no goroutine waits
}

// write is one write in progress. put is nil if it began before the guard was enforced.
type write struct {
	by   transport.Writer
	put  *unfinished
	size uint64
}

// Enforce makes the guard refuse writes, or let every one begin.
func (g *Guard) Enforce(on bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.enforced = on
}

// BeginWrite implements transport.Guard.
func (g *Guard) BeginWrite(offset, size uint64, by transport.Writer) transport.WriteID {
	g.mu.Lock()
	defer g.mu.Unlock()
	put := g.extents.holds(offset, size)
	if put == nil && g.enforced {
		return 0
	}
	if put != nil {
		put.writes++
	}
	if n := len(g.free); n > 0 {
		id := g.free[n-1]
		g.free = g.free[:n-1]
		g.writes[id-1] = write{by, put, size}
		return id
	}
	g.writes = append(g.writes, write{by, put, size})
	return transport.WriteID(len(g.writes))
}

// EndWrite implements transport.Guard.
func (g *Guard) EndWrite(id transport.WriteID) {
	g.mu.Lock()
	defer g.mu.Unlock()
	put, size := g.writes[id-1].put, g.writes[id-1].size
	g.writes[id-1] = write{}
	g.free = append(g.free, id)
	if put == nil {
		return
	}
	if put.gone {
		g.strayed(-1)
	}
	put.written += size
	if put.writes--; put.writes > 0 {
		return
	}
	if put.late && put.written >= put.size {
		g.end(put.id, false)
	}
	if !put.open && g.puts[put.id] == put {
		delete(g.puts, put.id)
	}
}

// Land returns when all bytes have arrived of the puts whose writers ended them without waiting for that
// (Unacknowledged). It returns the puts of which some have not arrived after the grace; these may write no more.
func (g *Guard) Land(ctx context.Context, grace time.Duration) (lost []Put) {
	landed := g.landing()
	if landed == nil {
		return nil
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-landed:
		return nil
	case <-timer.C:
	case <-ctx.Done():
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for p, u := range g.puts {
		if u.late {
			lost = append(lost, p)
			g.end(p, false)
		}
	}
	return lost
}

// landing returns a channel that is closed when no put is late, nil if none is now.
func (g *Guard) landing() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.late > 0 && g.landed == nil {
		g.landed = make(chan struct{})
	}
	return g.landed
}

// expect is end for a put of which bytes may be on their way yet: they may arrive until Land gives them up.
func (g *Guard) expect(p Put) {
	u := g.puts[p]
	if u == nil || !u.open || u.late || u.writes == 0 && u.written >= u.size {
		g.end(p, false)
		return
	}
	u.late = true
	g.late++
}

// arrived says that a put is not late any more.
func (g *Guard) arrived(u *unfinished) {
	u.late = false
	if g.late--; g.late == 0 && g.landed != nil {
		close(g.landed)
		g.landed = nil
	}
}

// strayed counts writes of puts that are gone.
func (g *Guard) strayed(n int) {
	if g.astray += n; g.astray == 0 && g.settled != nil {
		close(g.settled)
		g.settled = nil
	}
}

// Settle returns when no write is in progress that began in memory of a put that is gone. Such writes are rare, as
// their writers have given up or are silent. Those that are still in progress after the grace are cut. The error is
// that of the context, which ends first where a transport does not let go.
func (g *Guard) Settle(ctx context.Context, grace time.Duration) error {
	settled := g.unsettled()
	if settled == nil {
		return nil
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-settled:
		return nil
	case <-timer.C:
		g.cut()
	case <-ctx.Done():
		g.cut()
	}
	select {
	case <-settled:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("a peer still writes into memory of a put that is gone: %w", ctx.Err())
	}
}

// unsettled returns a channel that is closed when no write is astray, nil if none is now.
func (g *Guard) unsettled() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.astray > 0 && g.settled == nil {
		g.settled = make(chan struct{})
	}
	return g.settled
}

func (g *Guard) cut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, w := range g.writes {
		if w.put != nil && w.put.gone {
			w.by.Cut()
		}
	}
}

// begin lets a put write.
func (g *Guard) begin(p Put, extents []Extent) {
	u := &unfinished{id: p, open: true}
	if u.extents = append(u.one[:0:1], extents...); g.puts == nil {
		g.puts = map[Put]*unfinished{}
	}
	g.puts[p] = u
	for _, e := range u.extents {
		u.size += e.Length
		g.extents.add(owned{e, u})
	}
}

// end lets a put write no more. gone says that its memory is free.
func (g *Guard) end(p Put, gone bool) {
	u := g.puts[p]
	if u == nil {
		return
	}
	if u.late {
		g.arrived(u)
	}
	if u.open {
		u.open = false
		for _, e := range u.extents {
			g.extents.remove(e, p)
		}
	}
	if gone && !u.gone {
		u.gone = true
		g.strayed(u.writes)
	}
	if u.writes == 0 || gone {
		delete(g.puts, p)
	}
}
