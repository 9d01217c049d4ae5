package evicttest

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/sdk/conformance"
	"github.com/mooncake-go/mooncake/sdk/evict"
	"github.com/mooncake-go/mooncake/sdk/internal/rig"
)

// subject is a policy under test whose calls must all succeed, each within patience.
type subject struct {
	t        require.TestingT
	p        evict.Policy
	patience time.Duration
}

func newSubject(tb conformance.TB, f *subjects) subject {
	tb.Helper()
	p, err := f.f.New(f.settings(tb))
	return subject{t: tb, p: rig.Start(tb, p, err), patience: f.patience}
}

// call makes a call. what names it in a failure and in a sequence of calls.
func (s subject) call(what func() string, f func(context.Context) error) {
	if seq, ok := s.t.(*rig.Sequence); ok {
		seq.Note("%s", what())
	}
	var err error
	rig.Within(s.t, s.patience, what, func() { err = f(context.Background()) })
	if err != nil {
		s.failf("%s fails: %v", what(), err)
	}
}

// failf ends the check.
func (s subject) failf(format string, args ...any) {
	s.t.Errorf(format, args...)
	s.t.FailNow()
}

// record hands events over, and then uses their memory again, as a caller may.
func (s subject) record(events ...evict.Event) {
	own := slices.Clone(events)
	s.call(func() string { return "Record of " + listed(events, eventText) }, func(ctx context.Context) error { return s.p.Record(ctx, own) })
	for i := range own {
		own[i] = evict.Event{Op: evict.Remove, ID: 1<<63 + evict.ID(i), Size: 1 << 62}
	}
}

// insert records objects with the IDs from first on, one for each size.
func (s subject) insert(first evict.ID, sizes ...uint64) {
	events := make([]evict.Event, len(sizes))
	for i, size := range sizes {
		events[i] = evict.Event{Op: evict.Insert, ID: first + evict.ID(i), Size: size}
	}
	s.record(events...)
}

// insertMany records n objects of one size with the IDs from first on.
func (s subject) insertMany(first evict.ID, n int, size uint64) {
	s.insert(first, slices.Repeat([]uint64{size}, n)...)
}

func (s subject) access(id evict.ID) { s.record(evict.Event{Op: evict.Access, ID: id}) }
func (s subject) remove(id evict.ID) { s.record(evict.Event{Op: evict.Remove, ID: id}) }

// propose asks for at most limit victims.
func (s subject) propose(bytes uint64, limit int) (got []evict.Candidate) {
	s.call(func() string { return fmt.Sprintf("Propose of %d bytes, at most %s", bytes, count(limit, "victim")) },
		func(ctx context.Context) (err error) {
			got, err = s.p.Propose(ctx, make([]evict.Candidate, 0, limit), bytes)
			return err
		})
	if len(got) > limit {
		s.failf("Propose returns %s, and dst has the capacity %d", count(len(got), "victim"), limit)
	}
	return got
}

// drain proposes everything that is ranked.
func (s subject) drain(limit int) []evict.ID { return ids(s.propose(1<<63, limit)) }

// proposes requires that these objects, and no others, are proposed for a number of bytes.
func (s subject) proposes(bytes uint64, limit int, want ...evict.Candidate) {
	got := s.propose(bytes, limit)
	slices.SortFunc(got, func(a, b evict.Candidate) int { return cmp.Compare(a.ID, b.ID) })
	if !slices.Equal(got, want) {
		s.failf("Propose of %d bytes returns %s, and should return %s", bytes, listed(got, candidateText), listed(want, candidateText))
	}
}

// left requires that exactly these objects are ranked, and proposes them. why says what would be wrong otherwise.
func (s subject) left(why string, want ...evict.ID) {
	got := s.drain(len(want) + 8)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		s.failf("Propose of all that is ranked returns %s, and should return %s: %s", listed(got, idText), listed(want, idText), why)
	}
}

func (s subject) resolve(verdicts ...evict.Verdict) {
	own := slices.Clone(verdicts)
	s.call(func() string { return "Resolve of " + listed(verdicts, verdictText) }, func(ctx context.Context) error { return s.p.Resolve(ctx, own) })
	for i := range own {
		own[i] = evict.Verdict{ID: 1<<63 + evict.ID(i), Evicted: true}
	}
}

func (s subject) stats() (st evict.Stats) {
	s.call(func() string { return "Stats" }, func(ctx context.Context) (err error) {
		st, err = s.p.Stats(ctx)
		return err
	})
	return st
}

// holds requires the counts.
func (s subject) holds(objects, bytes, proposed uint64) {
	want := evict.Stats{Objects: objects, Bytes: bytes, Proposed: proposed}
	if got := s.stats(); got != want {
		s.failf("Stats counts %s, and should count %s", statsText(got), statsText(want))
	}
}

func statsText(st evict.Stats) string {
	return fmt.Sprintf("%s of %d bytes, %d of them proposed", count(int(st.Objects), "object"), st.Bytes, st.Proposed)
}

func eventText(e evict.Event) string {
	switch e.Op {
	case evict.Insert:
		return fmt.Sprintf("insert %d (%d bytes)", e.ID, e.Size)
	case evict.Access:
		return fmt.Sprintf("access %d", e.ID)
	case evict.Remove:
		return fmt.Sprintf("remove %d", e.ID)
	}
	return fmt.Sprintf("operation %d of object %d", e.Op, e.ID)
}

func candidateText(c evict.Candidate) string {
	return fmt.Sprintf("object %d (%d bytes)", c.ID, c.Size)
}
func idText(id evict.ID) string { return fmt.Sprintf("object %d", id) }

func verdictText(v evict.Verdict) string {
	if v.Evicted {
		return fmt.Sprintf("object %d evicted", v.ID)
	}
	return fmt.Sprintf("object %d retained", v.ID)
}

// listed names the items of a batch, a long one by its first.
func listed[T any](items []T, text func(T) string) string {
	const most = 8
	if len(items) == 0 {
		return "nothing"
	}
	var out []string
	for _, x := range items[:min(len(items), most)] {
		out = append(out, text(x))
	}
	if more := len(items) - most; more > 0 {
		out = append(out, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(out, ", ")
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
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
