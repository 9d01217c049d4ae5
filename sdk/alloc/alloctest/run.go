package alloctest

import (
	"context"
	"testing"
	"time"

	"github.com/mooncake-go/mooncake/sdk/alloc"
	"github.com/mooncake-go/mooncake/sdk/alloc/allocwire"
	"github.com/mooncake-go/mooncake/sdk/conformance"
	"github.com/mooncake-go/mooncake/sdk/internal/wiretest"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

// Option gives the suite what it cannot know.
type Option func(*options)

type options struct {
	config  func() plugin.Config
	without map[string]string
	settle  time.Duration // of rig.Released
	// patience bounds each call.
	patience  time.Duration
	processes func() []int
	kill      func(a alloc.Allocator, replay func(context.Context, alloc.Allocator) error) error
}

// WithConfig makes every allocator of the suite from config(), which returns a fresh value,
// instead of the factory's defaults.
func WithConfig(config func() plugin.Config) Option {
	return func(o *options) { o.config = config }
}

// Without leaves out a check, by name, that cannot hold for what is tested, and says why.
func Without(check, why string) Option {
	return func(o *options) {
		if o.without == nil {
			o.without = map[string]string{}
		}
		o.without[check] = why
	}
}

// WithKill lets the suite end the process of an allocator, as a crash would. The
// supervisor starts it again and calls replay with the new one before others can use it.
func WithKill(kill func(a alloc.Allocator, replay func(context.Context, alloc.Allocator) error) error) Option {
	return func(o *options) { o.kill = kill }
}

// WithProcesses lets the suite count what the processes of allocators hold. list returns the IDs of those that run.
func WithProcesses(list func() []int) Option {
	return func(o *options) { o.processes = list }
}

// WithPatience bounds each call. Only an allocator that hangs reaches the default, 30 s.
func WithPatience(d time.Duration) Option { return func(o *options) { o.patience = d } }

// Run checks the allocators of f against the contract, each check as a subtest of t. It makes about
// two dozen of them and about ten thousand calls.
func Run(t *testing.T, f alloc.Factory, opts ...Option) {
	conformance.Test(t, Suite(f, opts...))
}

// ThroughWire returns a factory like f whose allocators run behind gRPC connections, as between
// processes. New configures the far side and so reports what its factory reports. The
// connections end with t.
func ThroughWire(t testing.TB, f alloc.Factory) alloc.Factory {
	return wiretest.Factory(t, allocwire.Kind(), f)
}

// Suite returns the checks for the allocators that f makes.
func Suite(f alloc.Factory, opts ...Option) conformance.Suite {
	s := &subjects{f: f}
	s.patience = patience
	for _, set := range opts {
		set(&s.options)
	}
	out := conformance.Suite{Name: plugin.KindAlloc, Plugin: f.Manifest(), Cases: s.cases()}
	for i, c := range out.Cases {
		out.Cases[i].Skip = s.without[c.Name]
	}
	return out
}

// patience is the default bound of a call. Only an allocator that hangs reaches it.
const patience = 30 * time.Second

// subjects makes allocators under test.
type subjects struct {
	options
	f alloc.Factory
}

func (s *subjects) settings(conformance.TB) plugin.Config {
	if s.config != nil {
		return s.config()
	}
	return s.f.DefaultConfig()
}
