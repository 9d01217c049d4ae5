package datapath

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
	"github.com/mooncake-go/mooncake/sdk/x/shm"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = time.Minute

// rig is a path of which the test plays the other side.
type rig struct {
	h      *Host
	p      *Path
	mem    []byte // region 1
	in     *shm.Consumer
	out    *shm.Producer
	broken chan string
}

type rigT interface {
	require.TestingT
	Cleanup(func())
}

func newRig(t rigT, slots int, change func(*HostOptions)) *rig {
	r := &rig{broken: make(chan string, 1)}
	o := HostOptions{
		Name: "transport/x", Break: func(reason string) { r.broken <- reason }, Overdue: time.Hour, Limit: time.Hour,
		Fail: func(f Failure) error { return &errs.Error{Code: f.Code, Class: f.Class, Err: errors.New(f.Text)} },
	}
	if change != nil {
		change(&o)
	}
	r.h = NewHost(o)
	var err error
	r.p, err = r.h.NewPath("path", slots, false)
	require.NoError(t, err)
	t.Cleanup(r.h.Ended)
	r.mem = make([]byte, 1<<20)
	require.NoError(t, r.h.Add(1, r.mem, 7, "register"))
	r.h.Ready(1, true)
	r.p.Imported(5)
	_, second := RingBytes(slots, submissionSize)
	r.in, err = shm.NewConsumer(r.p.mem.Bytes(), submissions(slots, submissionSize), nil, 0)
	require.NoError(t, err)
	r.out, err = shm.NewProducer(r.p.mem.Bytes()[second:], completed(slots), ringOf{r.p})
	require.NoError(t, err)
	return r
}

// ringOf rings the path's bell as the plugin would.
type ringOf struct{ p *Path }

func (b ringOf) Ring(word *word) error                 { b.p.wake(); return nil }
func (b ringOf) Wait(_ context.Context, _ *word) error { return errors.New("not here") }
func (b ringOf) Close() error                          { return nil }

func (r *rig) submit(t require.TestingT, kind transport.OpKind, n int) {
	for i := range n {
		got, err := r.p.Submit([]transport.Op{{ID: uint64(100 + i), Kind: kind, Local: r.mem[i*64:][:64], Remote: 5, Offset: 9}})
		require.NoError(t, err)
		require.Equal(t, 1, got)
	}
}

// taken reads the submissions.
func (r *rig) taken(t require.TestingT) []submission {
	n, err := r.in.Ready()
	require.NoError(t, err)
	out := make([]submission, n)
	for i := range out {
		var b [submissionSize]byte
		r.in.Copy(i, b[:])
		out[i], err = decodeSubmission(b[:])
		require.NoError(t, err)
	}
	r.in.Free(n)
	return out
}

func (r *rig) complete(t require.TestingT, c completion) {
	var b [completionSize]byte
	r.out.Put(c.encode(&b))
	require.NoError(t, r.out.Publish())
}

func reapOne(t require.TestingT, p *Path) (transport.Completion, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	dst := make([]transport.Completion, 1)
	_, err := p.Reap(ctx, dst)
	return dst[0], err
}

// TestBrokenContract checks that each way to break the contract ends the process with a reason.
// From then on the host refuses operations, and it completes those in flight once and only after
// the process is gone.
func TestBrokenContract(t *testing.T) {
	for name, c := range map[string]struct {
		evil func(r *rig, s []submission)
		want string
	}{
		"a slot out of range": {func(r *rig, _ []submission) { r.complete(t, completion{tag: newTag(99, 1), status: 1}) }, "names operation 99"},
		"a slot not in use":   {func(r *rig, _ []submission) { r.complete(t, completion{tag: newTag(7, 1), status: 1}) }, "not in flight"},
		"another generation":  {func(r *rig, s []submission) { r.complete(t, completion{tag: s[0].tag + 1<<32, status: 1}) }, "generation"},
		"an unknown status":   {func(r *rig, s []submission) { r.complete(t, completion{tag: s[0].tag, status: 4}) }, "unknown status 4"},
		"no status":           {func(r *rig, s []submission) { r.complete(t, completion{tag: s[0].tag}) }, "unknown status 0"},
		"OK with an error": {func(r *rig, s []submission) {
			r.complete(t, completion{tag: s[0].tag, status: 1, Failure: Failure{Code: -1}})
		}, "says OK"},
		"a failure without code": {func(r *rig, s []submission) { r.complete(t, completion{tag: s[0].tag, status: 2}) }, "failed completion"},
		"an unknown class": {func(r *rig, s []submission) {
			r.complete(t, completion{tag: s[0].tag, status: 2, Failure: Failure{Code: -1, Class: 9}})
		}, "the class 9"},
		"completed twice": {func(r *rig, s []submission) {
			r.complete(t, completion{tag: s[2].tag, status: 1})
			r.complete(t, completion{tag: s[2].tag, status: 1})
		}, "completed"},
		"an index too far": {func(r *rig, _ []submission) { r.poke(r.second(), 0, 1<<40) }, "corrupt"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, 8, nil)
			r.submit(t, transport.Write, 2)
			r.submit(t, transport.Read, 1)
			s := r.taken(t)
			require.Len(t, s, 3)
			r.submit(t, transport.Write, 1) // This one stays in the ring.
			c.evil(r, s)
			r.p.wake()
			ctx, cancel := context.WithCancel(t.Context())
			got := make(chan map[transport.Status]int, 1)
			go func() {
				counts := map[transport.Status]int{}
				dst := make([]transport.Completion, 3)
				for {
					n, err := r.p.Reap(ctx, dst)
					for _, c := range dst[:n] {
						counts[c.Status]++
						if c.Status != transport.OK && errs.ClassOf(c.Err) != errs.ClassTransientPath {
							t.Errorf("class of %v", c.Err)
						}
					}
					if err != nil {
						if !errors.Is(err, transport.ErrPathClosed) {
							t.Errorf("reap: %v", err)
						}
						got <- counts
						return
					}
				}
			}()
			require.Contains(t, <-r.broken, c.want)
			n, err := r.p.Submit([]transport.Op{{ID: 1, Kind: transport.Read, Local: r.mem[:1], Remote: 5}})
			require.Zero(t, n)
			require.Equal(t, errs.ClassTransientPath, errs.ClassOf(err))
			require.ErrorContains(t, err, c.want)
			select {
			case counts := <-got:
				t.Fatalf("ended before the process did: %v", counts)
			default:
			}
			r.h.Ended()
			r.h.Ended()
			counts := <-got
			cancel()
			want := map[transport.Status]int{transport.Quarantined: 2, transport.Failed: 2}
			if name == "completed twice" {
				want = map[transport.Status]int{transport.OK: 1, transport.Quarantined: 2, transport.Failed: 1}
			}
			require.Equal(t, want, counts, "taken Writes are quarantined, the Read and the Write in the ring failed")
		})
	}
}

// second is where the ring of completions begins.
func (r *rig) second() int { _, n := RingBytes(len(r.p.table.slots), submissionSize); return n }

// TestCompletedWithoutBeingRead checks that the host refuses completions of operations that the
// plugin has not read from the ring. If it accepted them, it could overwrite entries that are still
// unread.
func TestCompletedWithoutBeingRead(t *testing.T) {
	r := newRig(t, 8, nil)
	r.submit(t, transport.Read, 4)
	for i := range uint32(2) {
		s := tag(0)
		for k := range r.p.table.slots {
			if r.p.table.slots[k].id == uint64(100+i) && r.p.table.slots[k].used {
				s = newTag(uint32(k), r.p.table.slots[k].generation)
			}
		}
		r.complete(t, completion{tag: s, status: 1})
		_, err := reapOne(t, r.p)
		require.NoError(t, err)
	}
	n, err := r.p.Submit([]transport.Op{{ID: 1, Kind: transport.Read, Local: r.mem[:1], Remote: 5}})
	require.Zero(t, n)
	require.ErrorContains(t, err, "did not read")
	require.Contains(t, <-r.broken, "did not read")
}

// TestDistantDeadline checks that the watchdog handles a deadline in the far future.
func TestDistantDeadline(t *testing.T) {
	r := newRig(t, 8, func(o *HostOptions) { o.Overdue = 10 * time.Millisecond })
	n, err := r.p.Submit([]transport.Op{{ID: 1, Kind: transport.Read, Local: r.mem[:1], Remote: 5, Deadline: time.Unix(1<<40, 0)}})
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.False(t, r.p.overdue())
	s := r.taken(t)
	r.complete(t, completion{tag: s[0].tag, status: 1})
	c, err := reapOne(t, r.p)
	require.NoError(t, err)
	require.Equal(t, transport.OK, c.Status)
}

// TestGarbageInTheRings writes arbitrary bytes wherever the plugin can write. The host must go on
// or end the process, and every operation must complete once.
func TestGarbageInTheRings(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var cleanup []func()
		r := newRig(fakeT{rt, &cleanup}, 4, nil)
		defer func() {
			for _, f := range cleanup {
				f()
			}
		}()
		accepted, seen := 0, map[uint64]int{}
		dst := make([]transport.Completion, 8)
		reap := func(ctx context.Context) error {
			n, err := r.p.Reap(ctx, dst)
			for _, c := range dst[:n] {
				seen[c.ID]++
			}
			return err
		}
		for range rapid.IntRange(1, 20).Draw(rt, "steps") {
			switch rapid.IntRange(0, 2).Draw(rt, "step") {
			case 0:
				n, _ := r.p.Submit([]transport.Op{{ID: uint64(accepted), Kind: transport.Write, Local: r.mem[:8], Remote: 5}})
				accepted += n
			case 1:
				at := rapid.IntRange(0, len(r.p.mem.Bytes())/8-1).Draw(rt, "at")
				if rapid.Bool().Draw(rt, "index") {
					at = rapid.SampledFrom([]int{0, 16, 32, r.second() / 8, r.second()/8 + 16, r.second()/8 + 32, r.second()/8 + 48, r.second()/8 + 49}).Draw(rt, "which")
				}
				r.poke(at*8, 0, rapid.OneOf(rapid.Uint64Max(8), rapid.Uint64()).Draw(rt, "value"))
			case 2:
				ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
				_ = reap(ctx)
				cancel()
			}
		}
		r.h.Ended()
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		for {
			if err := reap(ctx); err != nil {
				require.ErrorIs(rt, err, transport.ErrPathClosed)
				break
			}
		}
		require.Len(rt, seen, accepted)
		for id, n := range seen {
			require.Equal(rt, 1, n, "operation %d", id)
		}
	})
}

type fakeT struct {
	*rapid.T
	cleanup *[]func()
}

func (t fakeT) Cleanup(f func()) { *t.cleanup = append(*t.cleanup, f) }

// TestSilence checks that the host ends a plugin that does nothing, but not one whose completion
// waits for a Reap.
func TestSilence(t *testing.T) {
	soon := func(o *HostOptions) { o.Overdue, o.Limit = 20*time.Millisecond, time.Millisecond }
	r := newRig(t, 8, soon)
	r.submit(t, transport.Read, 1)
	require.Contains(t, <-r.broken, "not completed")

	patient := newRig(t, 8, soon)
	patient.submit(t, transport.Read, 1)
	patient.complete(t, completion{tag: patient.taken(t)[0].tag, status: transport.OK})
	require.Eventually(t, func() bool { // The watchdog itself takes it out of the ring.
		patient.p.mu.Lock()
		defer patient.p.mu.Unlock()
		return len(patient.p.done) == 1
	}, patience, time.Millisecond)
	c, err := reapOne(t, patient.p)
	require.NoError(t, err)
	require.Equal(t, transport.OK, c.Status)
	require.Empty(t, patient.broken)
}

// TestClosedButNotCompleted checks that a plugin breaks the contract if it says that a path is
// closed but has not completed all operations.
func TestClosedButNotCompleted(t *testing.T) {
	r := newRig(t, 8, nil)
	r.submit(t, transport.Read, 1)
	r.p.End()
	require.Error(t, r.p.Settle(t.Context()))
	require.Contains(t, <-r.broken, "without a completion")
	r.h.Ended()
	c, err := reapOne(t, r.p)
	require.NoError(t, err)
	require.Equal(t, transport.Failed, c.Status)
}

// TestPublishedCompletionsCount checks that completions that were published before the end are not
// lost.
func TestPublishedCompletionsCount(t *testing.T) {
	r := newRig(t, 8, nil)
	r.submit(t, transport.Write, 3)
	s := r.taken(t)
	r.complete(t, completion{tag: s[1].tag, status: transport.OK})
	r.complete(t, completion{tag: s[2].tag, status: transport.Failed, Failure: Failure{Code: errs.TransferFail, Class: errs.ClassPermanent, Text: strings.Repeat("x", 999)}})
	r.h.Ended()
	for _, want := range []struct {
		id     uint64
		status transport.Status
		class  errs.Class
	}{{101, transport.OK, 0}, {102, transport.Failed, errs.ClassPermanent}, {100, transport.Quarantined, errs.ClassTransientPath}} {
		c, err := reapOne(t, r.p)
		require.NoError(t, err)
		require.Equal(t, want.id, c.ID)
		require.Equal(t, want.status, c.Status)
		require.Equal(t, want.class, c.Class())
	}
	_, err := reapOne(t, r.p)
	require.ErrorIs(t, err, transport.ErrPathClosed)
	_, err = r.h.NewPath("late", 8, false)
	require.Error(t, err)
}

// TestNoAllocations checks that an operation on shared memory does not allocate.
func TestNoAllocations(t *testing.T) {
	r := newRig(t, 64, nil)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ops := []transport.Op{{ID: 1, Kind: transport.Read, Local: r.mem[:64], Remote: 5, Deadline: time.Now().Add(time.Hour)}}
	dst := make([]transport.Completion, 4)
	var b [submissionSize]byte
	var e [completionSize]byte
	allocs := testing.AllocsPerRun(1000, func() {
		if n, err := r.p.Submit(ops); n != 1 || err != nil {
			t.Fatal(err)
		}
		r.in.Copy(0, b[:])
		_, _ = r.in.Ready()
		r.in.Free(1)
		c := completion{tag: tag(leUint64(b[:8])), status: transport.OK}
		r.out.Put(c.encode(&e))
		_ = r.out.Publish()
		if n, err := r.p.Reap(ctx, dst); n != 1 || err != nil {
			t.Fatal(err)
		}
	})
	require.Zero(t, allocs)
	require.Zero(t, r.h.Figures().Copied)
	require.EqualValues(t, 64*1001, r.h.Figures().Moved)
}

func openFiles(t *testing.T) int {
	all, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	return len(all)
}

// TestPathsCloseTheirFiles checks that no path leaves a descriptor open, whether it is closed or
// its process has ended.
func TestPathsCloseTheirFiles(t *testing.T) {
	newRig(t, 8, nil).h.Ended()
	before := openFiles(t)
	for range 20 {
		r := newRig(t, 8, nil)
		r.submit(t, transport.Read, 2)
		r.h.Ended()
		r = newRig(t, 8, nil)
		r.p.End()
		require.NoError(t, r.p.Settle(t.Context()))
		require.Empty(t, r.h.Paths())
		r.h.Stopped()
	}
	require.Equal(t, before, openFiles(t))
}
