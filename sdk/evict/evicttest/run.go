package evicttest

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/sdk/conformance"
	"github.com/mooncake-go/mooncake/sdk/evict"
	"github.com/mooncake-go/mooncake/sdk/evict/evictwire"
	"github.com/mooncake-go/mooncake/sdk/internal/rig"
	"github.com/mooncake-go/mooncake/sdk/internal/wiretest"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

// Option gives the suite what it cannot know.
type Option func(*options)

type options struct {
	config  func() plugin.Config
	without map[string]string
	settle  time.Duration // of rig.Released
	kill    func(p evict.Policy, replay func(context.Context, evict.Policy) error) error
}

// WithConfig makes every policy of the suite from config(), which returns a fresh value,
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

// WithKill lets the suite end the process of a policy, as a crash would. The supervisor
// starts it again and calls replay with the new one before others can use it.
func WithKill(kill func(p evict.Policy, replay func(context.Context, evict.Policy) error) error) Option {
	return func(o *options) { o.kill = kill }
}

// Run checks the policies of f against the contract, each check as a subtest of t. It makes about
// three dozen of them and about ten thousand calls.
func Run(t *testing.T, f evict.Factory, opts ...Option) {
	conformance.Test(t, Suite(f, opts...))
}

// ThroughWire returns a factory like f whose policies run behind gRPC connections, as between
// processes. New configures the far side and so reports what its factory reports. The
// connections end with t.
func ThroughWire(t testing.TB, f evict.Factory) evict.Factory {
	return wiretest.Factory(t, evictwire.Kind(), f)
}

// Suite returns the checks for the policies that f makes.
func Suite(f evict.Factory, opts ...Option) conformance.Suite {
	s := &subjects{f: f}
	for _, set := range opts {
		set(&s.options)
	}
	out := conformance.Suite{Name: plugin.KindEvict, Plugin: f.Manifest(), Cases: s.cases()}
	for i, c := range out.Cases {
		out.Cases[i].Skip = s.without[c.Name]
	}
	return out
}

// subjects makes policies under test.
type subjects struct {
	options
	f evict.Factory
}

func (s *subjects) settings(conformance.TB) plugin.Config {
	if s.config != nil {
		return s.config()
	}
	return s.f.DefaultConfig()
}

// subject is a policy under test whose calls must all succeed.
type subject struct {
	t require.TestingT
	p evict.Policy
}

func newSubject(tb conformance.TB, f *subjects) subject {
	tb.Helper()
	p, err := f.f.New(f.settings(tb))
	return subject{t: tb, p: rig.Start(tb, p, err)}
}

func (s subject) record(events ...evict.Event) {
	require.NoError(s.t, s.p.Record(context.Background(), events), "Record")
}

// insert records objects with the IDs from first on, one for each size.
func (s subject) insert(first evict.ID, sizes ...uint64) {
	events := make([]evict.Event, len(sizes))
	for i, size := range sizes {
		events[i] = evict.Event{Op: evict.Insert, ID: first + evict.ID(i), Size: size}
	}
	s.record(events...)
}

func (s subject) access(id evict.ID) { s.record(evict.Event{Op: evict.Access, ID: id}) }
func (s subject) remove(id evict.ID) { s.record(evict.Event{Op: evict.Remove, ID: id}) }

// propose asks for at most limit victims.
func (s subject) propose(bytes uint64, limit int) []evict.Candidate {
	got, err := s.p.Propose(context.Background(), make([]evict.Candidate, 0, limit), bytes)
	require.NoError(s.t, err, "Propose")
	require.LessOrEqual(s.t, len(got), limit, "more candidates than the capacity of dst")
	return got
}

// drain proposes everything that is ranked.
func (s subject) drain(limit int) []evict.ID { return ids(s.propose(1<<63, limit)) }

func (s subject) resolve(verdicts ...evict.Verdict) {
	require.NoError(s.t, s.p.Resolve(context.Background(), verdicts), "Resolve")
}

func (s subject) stats() evict.Stats {
	st, err := s.p.Stats(context.Background())
	require.NoError(s.t, err, "Stats")
	return st
}

// holds requires the counts.
func (s subject) holds(objects, bytes, proposed uint64) {
	require.Equal(s.t, evict.Stats{Objects: objects, Bytes: bytes, Proposed: proposed}, s.stats())
}

func ids(cs []evict.Candidate) []evict.ID {
	out := make([]evict.ID, len(cs))
	for i, c := range cs {
		out[i] = c.ID
	}
	return out
}

func evicted(id evict.ID) evict.Verdict { return evict.Verdict{ID: id, Evicted: true} }
func spared(id evict.ID) evict.Verdict  { return evict.Verdict{ID: id} }
