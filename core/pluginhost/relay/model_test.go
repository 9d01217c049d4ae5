package relay

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/mooncake-go/mooncake/sdk/transport"
)

// user is a caller with one path and a reaper that always runs.
type user struct {
	path   transport.Path
	id     transport.RemoteID
	mu     sync.Mutex
	open   map[uint64]transport.Op
	failed int
	bad    string
	ended  chan struct{}
	closed bool
}

func (u *user) reap() {
	defer close(u.ended)
	var dst [7]transport.Completion
	for {
		n, err := u.path.Reap(context.Background(), dst[:])
		u.mu.Lock()
		for _, c := range dst[:n] {
			op, ok := u.open[c.ID]
			delete(u.open, c.ID)
			switch {
			case !ok:
				u.bad = "a completion of an unknown operation, or a second one"
			case c.Status == transport.OK && op.Kind == transport.Read && op.Local[0] != byte(op.Offset):
				u.bad = "a read returned wrong bytes"
			case c.Status != transport.OK:
				u.failed++
			}
		}
		u.mu.Unlock()
		if err != nil {
			if !errors.Is(err, transport.ErrPathClosed) || n != 0 {
				u.bad = "reap ended with " + err.Error()
			}
			return
		}
	}
}

// submit submits operations and notes those that were accepted.
func (u *user) submit(first uint64, n int, write bool) {
	ops := make([]transport.Op, n)
	for i := range ops {
		at := (first + uint64(i)) % 256
		ops[i] = transport.Op{ID: first + uint64(i), Kind: transport.Read, Local: []byte{255 - byte(at)}, Remote: u.id, Offset: at}
		if write {
			ops[i].Kind, ops[i].Local[0] = transport.Write, byte(at)
		}
	}
	u.mu.Lock()
	defer u.mu.Unlock() // Completions wait until the accepted operations are noted.
	k, _ := u.path.Submit(ops)
	for _, op := range ops[:k] {
		u.open[op.ID] = op
	}
}

// TestModel: whatever happens to the generations, in whatever order, every accepted operation
// completes exactly once, reads that succeed return the right bytes, and at the end the live
// process has the registered regions in their order.
func TestModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		r := newRig(Options{})
		mem := make([]byte, 256)
		for i := range mem {
			mem[i] = byte(i)
		}
		key, err := r.peer.Register(ctx, transport.Region{ID: 1, Mem: mem, FD: -1, Access: transport.AccessRemote})
		must(err)
		var users []*user
		var retiring []<-chan error
		var regions []transport.RegionID
		next, nextRegion := uint64(1), transport.RegionID(1)
		alive := func() bool { return r.gen != nil }
		pick := func() *user {
			var open []*user
			for _, u := range users {
				if !u.closed {
					open = append(open, u)
				}
			}
			if len(open) == 0 {
				return nil
			}
			return rapid.SampledFrom(open).Draw(t, "user")
		}
		actions := map[string]func(*rapid.T){
			"submit": func(t *rapid.T) {
				u := pick()
				if u == nil {
					t.Skip()
				}
				n := rapid.IntRange(1, 40).Draw(t, "n")
				u.submit(next, n, rapid.Bool().Draw(t, "write"))
				next += uint64(n)
			},
			"rise": func(t *rapid.T) {
				if alive() {
					t.Skip()
				}
				must(r.rise(ctx))
			},
			"fall": func(t *rapid.T) {
				if !alive() {
					t.Skip()
				}
				r.fall()
			},
			"swap": func(t *rapid.T) {
				if !alive() || len(retiring) > 3 {
					t.Skip()
				}
				r.live.Hold(false)
				done, err := r.swap(ctx, hooks{})
				must(err)
				retiring = append(retiring, done)
				if rapid.Bool().Draw(t, "published") {
					r.Published(r.Endpoint())
				}
			},
			"hold": func(t *rapid.T) {
				if !alive() {
					t.Skip()
				}
				r.live.Hold(rapid.Bool().Draw(t, "on"))
			},
			"register": func(t *rapid.T) {
				_, err := r.Register(ctx, transport.Region{ID: nextRegion, Mem: make([]byte, 8), FD: -1})
				if (err == nil) != alive() {
					t.Fatalf("register: %v", err)
				}
				if err == nil {
					regions = append(regions, nextRegion)
				}
				nextRegion++
			},
			"deregister": func(t *rapid.T) {
				if len(regions) == 0 {
					t.Skip()
				}
				i := rapid.IntRange(0, len(regions)-1).Draw(t, "i")
				must(r.Deregister(ctx, regions[i]))
				regions = append(regions[:i:i], regions[i+1:]...)
			},
			"dial": func(t *rapid.T) {
				if !alive() || len(users) == 6 {
					t.Skip()
				}
				p, err := r.Dial(ctx, r.peer.Endpoint())
				must(err)
				id, err := p.Import(ctx, key)
				must(err)
				u := &user{path: p, id: id, open: map[uint64]transport.Op{}, ended: make(chan struct{})}
				go u.reap()
				users = append(users, u)
			},
			"close": func(t *rapid.T) {
				if u := pick(); u != nil {
					must(u.path.Close(ctx))
					u.closed = true
				}
			},
		}
		t.Repeat(actions)

		r.Published(r.Endpoint())
		if alive() {
			r.live.Hold(false)
			if got := r.live.Regions(); len(got) != len(regions) {
				t.Fatalf("the generation has the regions %v, not %v", got, regions)
			}
			for i, id := range r.live.Regions() {
				if id != regions[i] {
					t.Fatalf("the generation has the regions %v, not %v", r.live.Regions(), regions)
				}
			}
		}
		for _, u := range users {
			must(u.path.Close(ctx))
			<-u.ended
			if u.bad != "" || len(u.open) > 0 {
				t.Fatalf("%s; %d operations did not complete", u.bad, len(u.open))
			}
		}
		r.stop()
		for _, done := range retiring {
			<-done
		}
		if n := len(r.others()); n > 0 {
			t.Fatalf("%d generations are left", n)
		}
	})
}
