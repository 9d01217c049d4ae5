package transfer

import (
	"log/slog"
	"sync"
	"time"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/matrix"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// maxRails bounds the rails of one path that are used: 16 devices on each side.
const maxRails = 256

// rail is one way of a link: a device here and one there, or the link as such where its
// transport has no rails.
type rail struct {
	transport.Rail
	index  int
	health health
	speed  speed
	slices int   // under way
	bytes  int64 // under way
	full   bool  // met back-pressure
	turn   uint64

	moved, ended, errors uint64
	last                 time.Time // something arrived
}

// wayward is a path that can be down as a whole, and comes back by itself: its transport runs
// in a process that was started again.
type wayward interface {
	Up() bool
}

// rails are the ways of one link. Safe for concurrent use; calls are short.
type rails struct {
	cfg    *Config
	railed transport.Railed // nil for a link without rails
	whole  wayward          // a link without rails that can be down as a whole, else nil
	here   matrix.Matrix
	log    *slog.Logger

	asking sync.Mutex // held to ask the path, so that answers are taken in their order

	mu    sync.Mutex
	list  []*rail
	there matrix.Matrix // of the peer
	tiers map[places][]tiered
	turn  uint64
	// fastest is the highest speed that was measured or promised, in bytes per second.
	fastest float64
}

// verdict says what a link can do for a slice now.
type verdict uint8

const (
	railReady  verdict = iota // a rail can take it
	railBusy                  // a rail can once it has room
	railPaused                // only paused or returning rails are left
	railDown                  // all rails are down
	railNone                  // all rails that are up were tried
)

func newRails(cfg *Config, path transport.Path, here matrix.Matrix, log *slog.Logger) *rails {
	r := &rails{cfg: cfg, here: here, log: log}
	if railed, ok := transport.As[transport.Railed](path); ok {
		r.railed = railed
		r.refresh()
		return r
	}
	r.list = []*rail{{Rail: transport.Rail{Up: true}}}
	if whole, ok := transport.As[wayward](path); ok {
		r.whole = whole
		r.refresh()
	}
	return r
}

// look says what the link can do for a slice that failed on the tried rails.
func (r *rails) look(tried *bitset) verdict {
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	v, up := railNone, false
	for _, w := range r.list {
		if !w.Up {
			continue
		}
		up = true
		switch {
		case tried.has(w.index):
		case !w.health.open(now, w.slices):
			v = min(v, railPaused)
		case w.full:
			v = min(v, railBusy)
		default:
			return railReady
		}
	}
	if !up {
		return railDown
	}
	return v
}

// exclude notes that a slice failed on its rail, or with its local device, and reports
// whether another rail of the link may do better.
func (r *rails) exclude(s *slice, class errs.Class) bool {
	if s.way == nil {
		return false
	}
	if class != errs.ClassPermanent {
		r.refresh()
	}
	if r.railed == nil {
		return false
	}
	r.mu.Lock()
	for _, w := range r.list {
		if w == s.way || class == errs.ClassLocalDevice && w.Local == s.way.Local {
			s.tried.add(w.index)
		}
	}
	r.mu.Unlock()
	v := r.look(&s.tried)
	return v == railReady || v == railBusy
}
