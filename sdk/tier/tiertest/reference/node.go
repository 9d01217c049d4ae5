package reference

import (
	"context"
	"slices"
	"sync"
	"unsafe"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/tier"
)

type state int

const (
	created state = iota
	running
	stopping
	stopped
)

// node implements tier.Tier.
type node struct {
	cfg      Config
	disk     *Backing
	survives bool
	abort    chan struct{} // closed when Stop gives up what is left
	ended    chan struct{} // closed when Stop has freed everything
	work     sync.WaitGroup

	mu      sync.Mutex
	state   state
	regions map[tier.RegionID]*region
	urgent  []*op
	others  []*op
	open    map[*op]struct{} // accepted, and still using their buffers
	unended int              // accepted, without a completion that is not Returned
	debt    int              // accepted, with a completion to be reaped
	done    []tier.Completion
	news    chan struct{} // closed and replaced when done, open or state changes
	wake    *sync.Cond    // when urgent, others or state changes
	counts  tier.Stats    // the errors
}

// alive returns an error if the tier does not run, or the context has ended. The caller holds n.mu.
func (n *node) alive(ctx context.Context, what string) error {
	if n.state != running {
		return errs.New(errs.UnavailableInCurrentStatus, what, "the tier does not run")
	}
	return ctx.Err()
}

// notify wakes who waits for completions and for buffers. The caller holds n.mu.
func (n *node) notify() {
	close(n.news)
	n.news = make(chan struct{})
}

// Register implements tier.Tier.
func (n *node) Register(ctx context.Context, r tier.Region) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.alive(ctx, "register"); err != nil {
		return err
	}
	if r.ID == 0 || len(r.Mem) == 0 || n.regions[r.ID] != nil {
		return errs.New(errs.InvalidParams, "register", "region %d of %d bytes: the ID must be new and not 0, and there must be bytes", r.ID, len(r.Mem))
	}
	for _, other := range n.regions {
		if x, y := address(r.Mem), address(other.Mem); x < y+uintptr(len(other.Mem)) && y < x+uintptr(len(r.Mem)) {
			return errs.New(errs.InvalidParams, "register", "region %d overlaps region %d", r.ID, other.ID)
		}
	}
	n.regions[r.ID] = &region{Region: r}
	return nil
}

// Deregister implements tier.Tier.
func (n *node) Deregister(ctx context.Context, id tier.RegionID) error {
	for {
		n.mu.Lock()
		if err := n.alive(context.Background(), "deregister"); err != nil {
			n.mu.Unlock()
			return err
		}
		r := n.regions[id]
		if r == nil {
			n.mu.Unlock()
			return errs.New(errs.InvalidParams, "deregister", "region %d is not registered", id)
		}
		if r.closed = true; r.users == 0 {
			delete(n.regions, id)
			n.mu.Unlock()
			return nil
		}
		news := n.news
		n.mu.Unlock()
		select {
		case <-news:
		case <-ctx.Done():
			return errs.WithHint(ctx.Err(), "the memory must not be reused yet; call Deregister again")
		}
	}
}

// find returns the region in which memory lies, nil without one. The caller holds n.mu.
func (n *node) find(b []byte) *region {
	for _, r := range n.regions {
		if start, at := address(r.Mem), address(b); !r.closed && len(b) <= len(r.Mem) && at >= start && at-start <= uintptr(len(r.Mem)-len(b)) {
			return r
		}
	}
	return nil
}

// Volume implements tier.Tier.
func (n *node) Volume() tier.Volume {
	n.disk.mu.Lock()
	defer n.disk.mu.Unlock()
	return tier.Volume{ID: n.disk.id, Generation: n.disk.generation, Capacity: n.disk.capacity, MaxRecord: n.maxRecord(), Align: 1}
}

func (n *node) maxRecord() uint64 { return n.disk.capacity / 2 }

// Space implements tier.Tier.
func (n *node) Space(r tier.Record) uint64 { return space(r) }

// Forget implements tier.Tier.
func (n *node) Forget(ctx context.Context, at []tier.Locator) error {
	return n.do(ctx, "forget", func() { n.disk.forget(at) })
}

// Flush implements tier.Tier.
func (n *node) Flush(ctx context.Context) error {
	return n.do(ctx, "flush", func() {
		if n.survives {
			n.disk.flush()
		}
	})
}

// Wipe implements tier.Tier.
func (n *node) Wipe(ctx context.Context) error { return n.do(ctx, "wipe", n.disk.wipe) }

func (n *node) do(ctx context.Context, what string, f func()) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.alive(ctx, what); err != nil {
		return err
	}
	f()
	return nil
}

// Scan implements tier.Tier. The cursor is the number of the oldest record that was found, plus 1.
func (n *node) Scan(ctx context.Context, from tier.Cursor, dst []tier.Found) (int, tier.Cursor, error) {
	if len(dst) == 0 {
		return 0, from, errs.New(errs.InvalidParams, "scan", "there is no space for results")
	}
	found := 0
	err := n.do(ctx, "scan", func() {
		n.disk.mu.Lock()
		defer n.disk.mu.Unlock()
		var all []tier.Locator
		for at := range n.disk.records {
			if from[0] == 0 || at[1] < from[0]-1 {
				all = append(all, at)
			}
		}
		slices.SortFunc(all, func(a, b tier.Locator) int { return int(b[1]) - int(a[1]) })
		for found = range min(len(all), len(dst)) {
			r := n.disk.records[all[found]].Record
			r.Key = slices.Clone(r.Key)
			dst[found] = tier.Found{Record: r, At: all[found]}
		}
		if found = min(len(all), len(dst)); found > 0 {
			from = tier.Cursor{all[found-1][1] + 1}
		}
	})
	return found, from, err
}

// Stats implements tier.Tier.
func (n *node) Stats(ctx context.Context) (tier.Stats, error) {
	var out tier.Stats
	err := n.do(ctx, "stats", func() {
		out = n.counts
		for o := range n.open {
			out.Oldest = max(out.Oldest, o.age())
		}
		n.disk.mu.Lock()
		defer n.disk.mu.Unlock()
		for _, r := range n.disk.records {
			out.Used += space(r.Record)
		}
		out.Records, out.Capacity = uint64(len(n.disk.records)), n.disk.capacity
		if free := n.disk.capacity - n.disk.used; free > overhead+tier.MaxKey {
			out.LargestFree = min(free-overhead-tier.MaxKey, n.maxRecord())
		}
	})
	return out, err
}

func address(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }
