package transfer_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/mooncake-go/mooncake/core/internal/testkit/memtransport"
	"github.com/mooncake-go/mooncake/core/transfer"
	"github.com/mooncake-go/mooncake/sdk/transport"
	"github.com/mooncake-go/mooncake/sdk/transport/transporttest/faulty"
)

// railed is a transport whose paths have rails that a test takes down, breaks and slows.
type railed struct {
	*memtransport.Transport
	changed chan struct{}

	mu    sync.Mutex
	rails []railState
	more  []byte                                // of the endpoint
	chaos func(transport.Op) memtransport.Fault // decides about every operation, nil for none
}

type railState struct {
	transport.Rail
	err    error         // fails every operation
	rate   float64       // bytes per second, 0 for any
	delay  time.Duration // of every failure
	free   time.Time     // when the rail has moved everything so far
	bytes  int           // that arrived
	ops    int
	flying int
	most   int // operations at once
}

// withRails gives the first carrier of a node rails between devices: here[i] to there[k].
func withRails(to **railed, here, there []string) option {
	return func(_ *transfer.Config, d *transfer.Deps) {
		inner, ok := d.Carriers[0].Transport.(*memtransport.Transport)
		if !ok {
			panic("not a memtransport")
		}
		r := &railed{Transport: inner, changed: make(chan struct{}, 1)}
		for _, h := range here {
			for _, t := range there {
				r.rails = append(r.rails, railState{Rail: transport.Rail{ID: transport.RailID(len(r.rails) + 1), Local: h, Remote: t, Up: true}})
			}
		}
		d.Carriers[0].Transport = r
		*to = r
	}
}

// Endpoint tells the devices as a real transport does; dialling it fails if more is set.
func (r *railed) Endpoint() transport.Endpoint {
	e := r.Transport.Endpoint()
	r.mu.Lock()
	defer r.mu.Unlock()
	e.Blob = append(slices.Clip(e.Blob), r.more...)
	return e
}

// move gives the transport another endpoint, and says so.
func (r *railed) move(more string) {
	r.mu.Lock()
	r.more = []byte(more)
	r.mu.Unlock()
	r.plug("", true)
}

func (r *railed) Changed() <-chan struct{} { return r.changed }

// set changes the rails of a local device, all of them for "".
func (r *railed) set(device string, f func(*railState)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.rails {
		if device == "" || r.rails[i].Local == device {
			f(&r.rails[i])
		}
	}
}

// count adds up over the rails of a local device, all of them for "".
func (r *railed) count(device string, f func(*railState) int) (n int) {
	r.set(device, func(s *railState) { n += f(s) })
	return n
}

// plug takes a device down or up, and says so.
func (r *railed) plug(device string, up bool) {
	r.set(device, func(s *railState) { s.Up = up })
	select {
	case r.changed <- struct{}{}:
	default:
	}
}

// moved returns the bytes by rail, "here-there".
func (r *railed) moved() map[string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := map[string]int{}
	for _, s := range r.rails {
		if s.bytes > 0 {
			out[s.Local+"-"+s.Remote] = s.bytes
		}
	}
	return out
}

func (r *railed) Dial(ctx context.Context, ep transport.Endpoint) (transport.Path, error) {
	inner, err := r.Transport.Dial(ctx, ep)
	if err != nil {
		return nil, err
	}
	plan := faulty.NewPlan()
	plan.Decide(r.decide)
	return &railedPath{Path: faulty.WrapPath(inner, plan), r: r, ops: map[uint64]transport.Op{}}, nil
}

// names returns prefix0 to prefix(n-1).
func names(prefix string, n int) []string {
	var out []string
	for i := range n {
		out = append(out, prefix+string(rune('0'+i)))
	}
	return out
}

// railStats returns what is known of the rail between two devices of one name.
func railStats(t testing.TB, n *node, device string) transfer.RailStats {
	t.Helper()
	for _, l := range n.Paths() {
		for _, r := range l.Rails {
			if r.Local == device && r.Remote == device {
				return r
			}
		}
	}
	t.Fatalf("no rail of %s in %+v", device, n.Paths())
	return transfer.RailStats{}
}
