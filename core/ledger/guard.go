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
// reaches the ledger a moment after the put was answered, and until then the put may write.
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
}

// write is one write in progress. put is nil if it began before the guard was enforced.
type write struct {
	by  transport.Writer
	put *unfinished
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
		g.writes[id-1] = write{by, put}
		return id
	}
	g.writes = append(g.writes, write{by, put})
	return transport.WriteID(len(g.writes))
}

// EndWrite implements transport.Guard.
func (g *Guard) EndWrite(id transport.WriteID) {
	g.mu.Lock()
	defer g.mu.Unlock()
	put := g.writes[id-1].put
	g.writes[id-1] = write{}
	g.free = append(g.free, id)
	if put == nil {
		return
	}
	if put.gone {
		g.strayed(-1)
	}
	if put.writes--; put.writes == 0 && !put.open && g.puts[put.id] == put {
		delete(g.puts, put.id)
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
		g.extents.add(owned{e, u})
	}
}

// end lets a put write no more. gone says that its memory is free.
func (g *Guard) end(p Put, gone bool) {
	u := g.puts[p]
	if u == nil {
		return
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
