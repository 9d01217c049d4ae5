package tiertest

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/sdk/conformance"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/internal/rig"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/tier"
	"github.com/mooncake-go/mooncake/sdk/x/crc32c"
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

// home is the region that each subject has, and homeSize its size.
const (
	home     tier.RegionID = 1
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
	ids  *atomic.Uint64
}

// newSubject starts a tier with an empty volume.
func newSubject(tb conformance.TB, f *subjects) *subject {
	tb.Helper()
	cfg := f.settings(tb)
	require.NoError(tb, cfg.Validate())
	s := open(tb, f, cfg)
	if f.config == nil {
		if !f.begun.Load() {
			require.Zero(tb, s.stats().Records, "the volume has records, which the suite would destroy; give it an empty one")
			f.begun.Store(true)
		}
		require.NoError(tb, s.tier.Wipe(s.within()), "Wipe")
	}
	return s
}

// open starts a tier with the volume of a configuration.
func open(tb conformance.TB, f *subjects, cfg plugin.Config) *subject {
	tb.Helper()
	x, err := f.f.New(cfg)
	x = rig.Start(tb, x, err)
	s := &subject{subjects: f, t: tb, tb: tb, cfg: cfg, tier: x, mem: make([]byte, homeSize), ids: new(atomic.Uint64)}
	require.NoError(tb, x.Register(s.within(), tier.Region{ID: home, Mem: s.mem, FD: -1}), "Register")
	return s
}

// reopen stops the tier and starts the next one with the same volume.
func (s *subject) reopen() *subject {
	rig.Stop(s.tb, s.tier)
	next := open(s.tb, s.subjects, s.cfg)
	next.t = s.t
	next.ids = s.ids
	return next
}

// within returns a context that ends when the suite's patience does.
func (s *subject) within() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), s.patience)
	s.tb.Cleanup(cancel)
	return ctx
}

func (s *subject) region(id tier.RegionID, size int) []byte {
	mem := make([]byte, size)
	require.NoError(s.t, s.tier.Register(s.within(), tier.Region{ID: id, Mem: mem, FD: -1}), "Register")
	return mem
}

// entry is a record, its value, and where it is.
type entry struct {
	tier.Record
	value []byte
	at    tier.Locator
}

// newEntry makes a record with a checksum. The value depends on the key and on the version.
func newEntry(key string, put uint64, size int) entry {
	value := make([]byte, size)
	fill(value, uint64(crc32c.Sum([]byte(key)))<<20+put)
	r := tier.Record{Key: []byte(key), Version: tier.Version{Epoch: 1, Put: put}, Size: uint64(size), Sum: crc32c.Sum(value), Summed: true}
	return entry{Record: r, value: value}
}

// fill writes bytes that depend on seed and on their position.
func fill(b []byte, seed uint64) {
	x := seed*0x9e3779b97f4a7c15 + 1
	next := func() uint64 {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		return x
	}
	i := 0
	for ; i+8 <= len(b); i += 8 {
		binary.LittleEndian.PutUint64(b[i:], next())
	}
	for ; i < len(b); i++ {
		b[i] = byte(next())
	}
}

// writes is the Write of an entry, whose value it copies to buf.
func (e entry) writes(buf []byte) tier.Op {
	return tier.Op{Kind: tier.Write, Record: e.Record, Local: [][]byte{buf[:copy(buf, e.value)]}}
}

// reads is the Read of the whole value into buf.
func (e entry) reads(buf []byte) tier.Op {
	return tier.Op{Kind: tier.Read, Record: e.Record, At: e.at, Local: [][]byte{buf[:e.Size]}}
}

// submit submits all operations, with new IDs, and reaps what it has to. It returns the IDs and the
// completions that came meanwhile.
func (s *subject) submit(ops ...tier.Op) (ids []uint64, early []tier.Completion) {
	ctx := s.within()
	ops = slices.Clone(ops)
	for i := range ops {
		ops[i].ID = s.ids.Add(1)
		ids = append(ids, ops[i].ID)
	}
	for len(ops) > 0 {
		n, err := s.tier.Submit(ops)
		require.NoError(s.t, err, "Submit")
		require.LessOrEqual(s.t, n, len(ops))
		if ops = ops[n:]; n == 0 {
			early = append(early, s.reap(ctx, 64)...)
		}
	}
	return ids, early
}

// reap waits for completions, at most limit of them.
func (s *subject) reap(ctx context.Context, limit int) []tier.Completion {
	dst := make([]tier.Completion, limit)
	n, err := s.tier.Reap(ctx, dst)
	require.NoError(s.t, err, "Reap")
	require.Positive(s.t, n, "Reap returned nothing, and no error")
	return dst[:n]
}

// do runs operations to their end and returns their completions, in the order of ops. Those that were
// Quarantined have been Returned.
func (s *subject) do(ops ...tier.Op) []tier.Completion {
	ids, early := s.submit(ops...)
	return s.finish(ops, ids, early)
}

func (s *subject) finish(ops []tier.Op, ids []uint64, early []tier.Completion) []tier.Completion {
	ctx := s.within()
	out := make([]tier.Completion, len(ids))
	place := map[uint64]int{}
	for i, id := range ids {
		place[id] = i
	}
	owed := map[uint64]tier.Status{} // What came last of those that have not ended.
	for _, id := range ids {
		owed[id] = 0
	}
	for got := early; ; got = s.reap(ctx, 64) {
		for _, c := range got {
			last, open := owed[c.ID]
			require.True(s.t, open, "the completion of operation %d, which is not in flight", c.ID)
			if last == tier.Quarantined {
				require.Equal(s.t, tier.Returned, c.Status, "after Quarantined")
				require.NoError(s.t, c.Err)
				delete(owed, c.ID)
				continue
			}
			wellFormed(s.t, ops[place[c.ID]], c)
			out[place[c.ID]] = c
			if owed[c.ID] = c.Status; c.Status != tier.Quarantined {
				delete(owed, c.ID)
			}
		}
		if len(owed) == 0 {
			return out
		}
	}
}

// codes are those that a completion may carry, by the kind of operation.
var codes = map[tier.Kind][]errs.Code{
	tier.Read:  {errs.ObjectNotFound, errs.ChecksumMismatch, errs.FileReadFail, errs.RPCTimeout, errs.UnavailableInCurrentStatus},
	tier.Write: {errs.ChecksumMismatch, errs.NoAvailableHandle, errs.FileWriteFail, errs.RPCTimeout, errs.UnavailableInCurrentStatus},
}

// wellFormed checks what holds for every first completion.
func wellFormed(t require.TestingT, o tier.Op, c tier.Completion) {
	if c.Status == tier.OK {
		require.NoError(t, c.Err)
		require.Equal(t, o.Kind == tier.Write, c.At != tier.Locator{}, "a Write that is OK has a locator, a Read has none")
		require.False(t, c.Verified && o.Kind == tier.Write, "a Write is not verified")
		return
	}
	require.Contains(t, []tier.Status{tier.Failed, tier.Quarantined}, c.Status)
	require.False(t, c.Verified)
	require.Equal(t, tier.Locator{}, c.At, "there is no record")
	require.Contains(t, codes[o.Kind], errs.CodeOf(c.Err), "%v", c.Err)
	switch errs.CodeOf(c.Err) {
	case errs.ObjectNotFound, errs.ChecksumMismatch:
		require.Equal(t, errs.ClassPermanent, errs.ClassOf(c.Err), "%v", c.Err)
	case errs.FileReadFail, errs.FileWriteFail:
		require.Contains(t, []errs.Class{errs.ClassPermanent, errs.ClassLocalDevice}, errs.ClassOf(c.Err), "%v", c.Err)
	}
}

// write keeps entries, one after the other, and sets their locators.
func (s *subject) write(es ...*entry) {
	for _, e := range es {
		c := s.do(e.writes(s.mem))[0]
		require.Equal(s.t, tier.OK, c.Status, "write %q: %v", e.Key, c.Err)
		e.at = c.At
	}
}

// add keeps a new entry.
func (s *subject) add(key string, put uint64, size int) entry {
	e := newEntry(key, put, size)
	s.write(&e)
	return e
}

// holds requires that entries can be read.
func (s *subject) holds(es ...entry) {
	for _, e := range es {
		clear(s.mem[:e.Size])
		c := s.do(e.reads(s.mem))[0]
		require.Equal(s.t, tier.OK, c.Status, "read %q of version %v: %v", e.Key, e.Version, c.Err)
		require.Equal(s.t, e.Summed, c.Verified, "Verified of the whole value")
		same(s.t, e.value, s.mem[:e.Size])
	}
}

// lacks requires that the records of entries are not found.
func (s *subject) lacks(es ...entry) {
	for _, e := range es {
		s.fails(errs.ObjectNotFound, e.reads(s.mem))
	}
}

// fails requires that an operation fails with a code.
func (s *subject) fails(code errs.Code, o tier.Op) {
	c := s.do(o)[0]
	require.NotEqual(s.t, tier.OK, c.Status, "%q of version %v at %v must not succeed", o.Record.Key, o.Record.Version, o.At)
	require.Equal(s.t, code, errs.CodeOf(c.Err), "%v", c.Err)
}

// refuses requires that Submit accepts no operation.
func (s *subject) refuses(what string, code errs.Code, o tier.Op) {
	o.ID = s.ids.Add(1)
	n, err := s.tier.Submit([]tier.Op{o})
	require.Zero(s.t, n, "%s was accepted", what)
	require.Equal(s.t, code, errs.CodeOf(err), "%s: %v", what, err)
}

func (s *subject) forget(es ...entry) {
	at := make([]tier.Locator, len(es))
	for i, e := range es {
		at[i] = e.at
	}
	require.NoError(s.t, s.tier.Forget(s.within(), at), "Forget")
}

// scan returns all records in pages.
func (s *subject) scan(page int) []tier.Found {
	var out []tier.Found
	var at tier.Cursor
	for {
		dst := make([]tier.Found, page)
		n, next, err := s.tier.Scan(s.within(), at, dst)
		require.NoError(s.t, err, "Scan")
		require.LessOrEqual(s.t, n, page)
		if n == 0 {
			return out
		}
		out, at = append(out, dst[:n]...), next
		require.Less(s.t, len(out), 1<<20, "Scan does not end")
	}
}

func (s *subject) stats() tier.Stats {
	st, err := s.tier.Stats(s.within())
	require.NoError(s.t, err, "Stats")
	return st
}

// counts requires that Stats and Scan have these records and no other.
func (s *subject) counts(es ...entry) {
	var used uint64
	want := make([]tier.Found, 0, len(es))
	for _, e := range es {
		used += s.tier.Space(e.Record)
		want = append(want, tier.Found{Record: e.Record, At: e.at})
	}
	st := s.stats()
	require.EqualValues(s.t, len(es), st.Records, "Stats.Records")
	require.Equal(s.t, used, st.Used, "Stats.Used is the sum of Space")
	require.LessOrEqual(s.t, st.Used, st.Capacity)
	sameFound(s.t, want, s.scan(7))
}

// sameFound compares records in any order.
func sameFound(t require.TestingT, want, got []tier.Found) {
	lines := func(fs []tier.Found) []string {
		out := make([]string, len(fs))
		for i, f := range fs {
			out[i] = fmt.Sprintf("%x %v of %d bytes, checksum %v %x, at %v", f.Record.Key, f.Record.Version, f.Record.Size, f.Record.Summed, f.Record.Sum, f.At)
		}
		slices.Sort(out)
		return out
	}
	require.Equal(t, lines(want), lines(got), "the records that Scan finds")
}

// same compares bytes without printing them.
func same(t require.TestingT, want, got []byte) {
	require.True(t, len(want) == len(got), "%d bytes, want %d", len(got), len(want))
	if bytes.Equal(want, got) {
		return
	}
	for i := range want {
		if want[i] != got[i] {
			require.Failf(t, "wrong bytes", "from byte %d of %d on", i, len(want))
		}
	}
}

// ends requires that f returns, within the suite's patience.
func (s *subject) ends(what string, f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
	case <-time.After(s.patience):
		assert.Failf(s.t, "it does not return", "%s", what)
		s.tb.FailNow()
	}
}

// soon returns a context that ends soon, for calls that cannot succeed.
func soon() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), 50*time.Millisecond)
}

func fillWith(b []byte, x byte) {
	for i := range b {
		b[i] = x
	}
}
