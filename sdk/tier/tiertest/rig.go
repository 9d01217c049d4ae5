package tiertest

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/sdk/conformance"
	"github.com/mooncake-go/mooncake/sdk/internal/expect"
	"github.com/mooncake-go/mooncake/sdk/internal/rig"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/tier"
)

// subjects makes tiers under test.
type subjects struct {
	options
	f     tier.Factory
	begun atomic.Bool // the volume of the defaults was empty, and is the suite's
}

func (s *subjects) has(c plugin.Capability) bool { return s.f.Manifest().Has(c) }

func (s *subjects) settings(t conformance.TB) plugin.Config {
	if s.config != nil {
		return s.config(t)
	}
	return s.f.DefaultConfig()
}

// homeID is the region that each subject has, and homeSize its size.
const (
	homeID   tier.RegionID = 1
	homeSize               = 4 << 20
)

// subject is a tier under test whose calls must succeed. t is where it reports; one that is shared
// by several goroutines reports errors only.
type subject struct {
	*subjects
	t    require.TestingT
	tb   conformance.TB
	cfg  plugin.Config
	tier tier.Tier
	mem  []byte // of the region home
	home memory
	ids  *atomic.Uint64
	// known has the operations that were submitted, by ID, for failures.
	known *sync.Map
}

// memory is what regions are made of.
type memory struct {
	b  []byte
	fd int
}

func (s *subjects) memory(tb conformance.TB, size int) memory {
	if s.shared == nil {
		return memory{make([]byte, size), -1}
	}
	b, fd := s.shared(tb, size)
	return memory{b, fd}
}

// region is the region of a part of the memory.
func (m memory) region(id tier.RegionID, from, to int) tier.Region {
	return tier.Region{ID: id, Mem: m.b[from:to], FD: m.fd, FDOffset: int64(from)}
}

// newSubject starts a tier with an empty volume.
func newSubject(tb conformance.TB, f *subjects) *subject {
	tb.Helper()
	return newSubjectWith(tb, f, f.memory(tb, homeSize))
}

func newSubjectWith(tb conformance.TB, f *subjects, home memory) *subject {
	tb.Helper()
	cfg := f.settings(tb)
	expect.NoError(tb, plugin.Validate(cfg))
	s := open(tb, f, cfg, home)
	if f.config == nil {
		if !f.begun.Load() {
			expect.Zero(tb, s.stats().Records, "the volume has records, which the suite would destroy; give it an empty one")
			f.begun.Store(true)
		}
		expect.NoError(tb, s.tier.Wipe(s.within()), "Wipe")
	}
	return s
}

// open starts a tier with the volume of a configuration.
func open(tb conformance.TB, f *subjects, cfg plugin.Config, home memory) *subject {
	tb.Helper()
	x, err := f.f.New(cfg)
	x = rig.Start(tb, x, err)
	s := &subject{subjects: f, t: tb, tb: tb, cfg: cfg, tier: x, mem: home.b, home: home, ids: new(atomic.Uint64), known: new(sync.Map)}
	expect.NoError(tb, x.Register(s.within(), home.region(homeID, 0, homeSize)), "Register")
	return s
}

// reopen stops the tier and starts the next one with the same volume.
func (s *subject) reopen() *subject {
	s.note("Stop and Start")
	rig.Stop(s.tb, s.tier)
	next := open(s.tb, s.subjects, s.cfg, s.home)
	next.t = s.t
	next.ids, next.known = s.ids, s.known
	return next
}

// more returns memory that lasts until the tier is stopped.
func (s *subject) more(size int) memory {
	m := s.memory(s.tb, size)
	x := s.tier
	s.tb.Cleanup(func() { rig.Stop(s.tb, x) }) // Before the memory ends.
	return m
}

// within returns a context that ends when the suite's patience does.
func (s *subject) within() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), s.patience)
	s.tb.Cleanup(cancel)
	return ctx
}

func (s *subject) region(id tier.RegionID, size int) []byte {
	m := s.more(size)
	expect.NoError(s.t, s.tier.Register(s.within(), m.region(id, 0, size)), "Register")
	return m.b
}

// ends requires that f returns, within the suite's patience.
func (s *subject) ends(what string, f func()) {
	rig.Within(s.t, s.patience, func() string { return what }, f)
}

// soon returns a context that ends soon, for calls that cannot succeed.
func soon() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), 50*time.Millisecond)
}
