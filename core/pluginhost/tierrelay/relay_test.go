package tierrelay

import (
	"context"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/tier"
	"github.com/mooncake-go/mooncake/sdk/tier/tiertest/reference"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is a relay whose generations are tiers in memory.
type rig struct {
	*Relay
	t   *testing.T
	mem []byte
}

func newRig(t *testing.T) *rig {
	r := New(plugin.ID{Kind: plugin.KindTier, Name: "x"}, func(op string) error {
		return errs.New(errs.UnavailableInCurrentStatus, op, "no process runs")
	})
	return &rig{r, t, make([]byte, 1<<16)}
}

// begin starts a generation that is not used yet.
func (r *rig) begin() *Generation {
	r.t.Helper()
	f := reference.Factory()
	x, err := f.New(f.DefaultConfig())
	require.NoError(r.t, err)
	require.NoError(r.t, x.Start(r.t.Context(), nil))
	return r.Begin(x, func(context.Context, error) {})
}

// rise starts a generation and uses it.
func (r *rig) rise() *Generation {
	r.t.Helper()
	gen := r.begin()
	require.NoError(r.t, r.Enroll(r.t.Context(), gen))
	r.Use(gen)
	return gen
}

// fall ends a generation as the end of its process does.
func (r *rig) fall(gen *Generation) {
	r.t.Helper()
	r.Lost(gen)
	require.NoError(r.t, gen.t.Stop(context.Background()))
	r.Ended(gen)
}

func (r *rig) write(id uint64) tier.Op {
	return tier.Op{ID: id, Kind: tier.Write, Record: tier.Record{Key: []byte("k"), Size: 64}, Local: [][]byte{r.mem[:64]}}
}

// TestOperationsOverGenerations: each operation that was accepted completes once, whatever becomes of
// the generations.
func TestOperationsOverGenerations(t *testing.T) {
	const n = 600
	r := newRig(t)
	gen := r.rise()
	require.NoError(t, r.Register(t.Context(), tier.Region{ID: 1, Mem: r.mem, FD: -1}))
	var submitting, reaping sync.WaitGroup
	over, accepted := make(chan struct{}), make(chan struct{}, 1)
	submitting.Go(func() {
		defer close(over)
		for id := uint64(1); id <= n; {
			k, err := r.Submit([]tier.Op{r.write(id), r.write(id + 1), r.write(id + 2)})
			if err != nil && !assert.ErrorIs(t, err, errs.UnavailableInCurrentStatus.Err()) {
				return
			}
			if id += uint64(k); k == 0 {
				runtime.Gosched()
				continue
			}
			select {
			case accepted <- struct{}{}:
			default:
			}
		}
	})
	ended := map[uint64]int{}
	reaping.Go(func() {
		dst := make([]tier.Completion, 16)
		for {
			k, err := r.Reap(context.Background(), dst)
			for _, c := range dst[:k] {
				ended[c.ID]++
			}
			if err != nil {
				assert.ErrorIs(t, err, tier.ErrStopped)
				return
			}
		}
	})
	for round := 0; ; round++ {
		select {
		case <-over:
		case <-accepted: // On one processor, generations would come and go without an operation otherwise.
			if round%2 == 0 {
				require.NoError(t, r.Retire(t.Context(), gen))
				r.mu.Lock()
				require.Zero(t, gen.inFlight)
				r.mu.Unlock()
			}
			r.fall(gen)
			gen = r.rise()
			continue
		}
		break
	}
	submitting.Wait()
	r.fall(gen)
	r.Close()
	reaping.Wait()
	for id := uint64(1); id <= n; id++ {
		require.Equal(t, 1, ended[id], "operation %d", id)
	}
	require.Zero(t, r.owed)
}

// TestBackPressure: a caller that does not reap gets a short count, whatever the generations accept.
func TestBackPressure(t *testing.T) {
	r := newRig(t)
	gen := r.rise()
	require.NoError(t, r.Register(t.Context(), tier.Region{ID: 1, Mem: r.mem, FD: -1}))
	accepted := 0
	for accepted < window {
		k, err := r.Submit([]tier.Op{r.write(1)})
		require.NoError(t, err)
		if accepted += k; k == 0 {
			runtime.Gosched() // The tier's own window is smaller.
		}
	}
	k, err := r.Submit([]tier.Op{r.write(1)})
	require.NoError(t, err)
	require.Zero(t, k)
	_, err = r.Reap(t.Context(), make([]tier.Completion, 1))
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		k, err = r.Submit([]tier.Op{r.write(1)})
		return err == nil && k == 1
	}, time.Minute, time.Millisecond)
	r.fall(gen)
	r.Close()
}

// TestARegionThatIsBeingDeregistered is not given to the next generation, and its ID stays in use.
func TestARegionThatIsBeingDeregistered(t *testing.T) {
	r := newRig(t)
	require.ErrorIs(t, r.Deregister(t.Context(), 1), errs.UnavailableInCurrentStatus.Err(), "before the first process")
	old := r.rise()
	region := tier.Region{ID: 1, Mem: r.mem, FD: -1}
	require.NoError(t, r.Register(t.Context(), region))
	next := r.begin()
	require.NoError(t, r.Enroll(t.Context(), next)) // From here on changes wait.
	short, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	require.ErrorContains(t, r.Deregister(short, 1), "must not be used")
	r.Use(next)
	require.ErrorIs(t, r.Register(t.Context(), region), errs.InvalidParams.Err())
	third := r.rise()
	require.False(t, third.holds(1))
	require.NoError(t, r.Deregister(t.Context(), 1))
	require.False(t, old.holds(1) || next.holds(1))
	require.ErrorIs(t, r.Deregister(t.Context(), 1), errs.InvalidParams.Err())
	for _, gen := range []*Generation{old, next, third} {
		r.fall(gen)
	}
	r.Close()
}
