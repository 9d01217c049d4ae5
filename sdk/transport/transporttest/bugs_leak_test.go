package transporttest_test

import (
	"context"
	"os"
	"sync"

	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/transport"
	"github.com/mooncake-go/mooncake/sdk/transport/transporttest/reference"
)

// wide is a configuration of the reference transport whose window holds all operations that the
// suite has in flight at once.
func wide() plugin.Config { return &reference.Config{Window: 8 << 20} }

// leaks are resources that a test leaks until it ends.
type leaks struct {
	end   chan struct{}
	wg    sync.WaitGroup
	mu    sync.Mutex
	files []*os.File
}

func (l *leaks) goroutine() { l.wg.Go(func() { <-l.end }) }

func (l *leaks) descriptor() {
	f, err := os.Open(os.DevNull)
	if err != nil {
		return // The check then fails because it finds no leak.
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.files = append(l.files, f)
}

func (l *leaks) done() {
	close(l.end)
	l.wg.Wait()
	for _, f := range l.files {
		_ = f.Close()
	}
}

// leakBugs are bugs that leak resources.
func leakBugs() map[string]bug {
	out := map[string]bug{}
	add := func(name, says, check string, bend func(*leaks) func(*bent)) {
		l := &leaks{end: make(chan struct{})}
		out[name] = bug{bend: bend(l), finds: []string{check}, says: says, done: l.done}
	}
	// Close and Stop can be repeated; each leaks only once.
	closes := func(leak func(*leaks)) func(*leaks) func(*bent) {
		return func(l *leaks) func(*bent) {
			return paths(func(p *bentPath) {
				var once sync.Once
				p.close = func(ctx context.Context) error { once.Do(func() { leak(l) }); return p.Path.Close(ctx) }
			})
		}
	}
	add("each path leaves a goroutine", "goroutines of sync.(*WaitGroup).Go", "leaks of paths and regions", closes((*leaks).goroutine))
	add("each path leaves a descriptor", "descriptors /dev/null", "leaks of paths and regions", closes((*leaks).descriptor))
	add("each region leaves a descriptor", "descriptors /dev/null", "leaks of paths and regions", func(l *leaks) func(*bent) {
		return func(b *bent) {
			b.deregister = func(ctx context.Context, id transport.RegionID) error {
				l.descriptor()
				return b.Transport.Deregister(ctx, id)
			}
		}
	})
	stops := func(leak func(*leaks)) func(*leaks) func(*bent) {
		return func(l *leaks) func(*bent) {
			return func(b *bent) {
				var once sync.Once
				b.stop = func(ctx context.Context) error { once.Do(func() { leak(l) }); return b.Transport.Stop(ctx) }
			}
		}
	}
	add("each life leaves a goroutine", "goroutines of sync.(*WaitGroup).Go", "leaks of starts and stops", stops((*leaks).goroutine))
	add("each life leaves a descriptor", "descriptors /dev/null", "leaks of starts and stops", stops((*leaks).descriptor))
	return out
}
