package faulty_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mooncake-go/mooncake/sdk/conformance"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/tier"
	"github.com/mooncake-go/mooncake/sdk/tier/tiertest"
	"github.com/mooncake-go/mooncake/sdk/tier/tiertest/faulty"
	"github.com/mooncake-go/mooncake/sdk/tier/tiertest/reference"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestItIsATier: without rules it is the tier that it wraps, and with faults it is a correct tier on
// a bad storage.
func TestItIsATier(t *testing.T) {
	plan := faulty.NewPlan()
	opts := append(reference.Options(), tiertest.WithStorage(func(conformance.TB, plugin.Config) tiertest.Storage {
		return tiertest.Storage{
			Hang: func() func() {
				plan.Fault(faulty.Hang, faulty.When{})
				return func() {
					plan.Clear()
					plan.Release()
				}
			},
			Fail: func() func() {
				plan.Fault(faulty.ReadError, faulty.When{Class: errs.ClassLocalDevice})
				plan.Fault(faulty.WriteError, faulty.When{Class: errs.ClassLocalDevice})
				return plan.Clear
			},
		}
	}))
	tiertest.Run(t, faulty.Factory(reference.Surviving(), plan), opts...)
}

// subject is a tier that follows a plan.
type subject struct {
	t    *testing.T
	plan *faulty.Plan
	tier tier.Tier
	mem  []byte
}

func start(t *testing.T) subject {
	plan := faulty.NewPlan()
	x, err := faulty.Factory(reference.Factory(), plan).New(reference.Factory().DefaultConfig())
	require.NoError(t, err)
	require.NoError(t, x.Start(t.Context(), nil))
	t.Cleanup(func() { require.NoError(t, x.Stop(context.Background())) })
	s := subject{t: t, plan: plan, tier: x, mem: make([]byte, 4096)}
	require.NoError(t, x.Register(t.Context(), tier.Region{ID: 1, Mem: s.mem, FD: -1}))
	return s
}

func (s subject) submit(o tier.Op) {
	n, err := s.tier.Submit([]tier.Op{o})
	require.NoError(s.t, err)
	require.Equal(s.t, 1, n)
}

func (s subject) reap() tier.Completion {
	dst := make([]tier.Completion, 1)
	n, err := s.tier.Reap(s.t.Context(), dst)
	require.NoError(s.t, err)
	require.Equal(s.t, 1, n)
	return dst[0]
}

// write keeps a value of 100 bytes, all of them b, and returns how to read it.
func (s subject) write(put uint64, b byte) (tier.Op, tier.Completion) {
	for i := range s.mem[:100] {
		s.mem[i] = b
	}
	r := tier.Record{Key: []byte("k"), Version: tier.Version{Put: put}, Size: 100}
	s.submit(tier.Op{ID: put, Kind: tier.Write, Record: r, Local: [][]byte{s.mem[:100]}})
	c := s.reap()
	return tier.Op{Kind: tier.Read, Record: r, At: c.At, Local: [][]byte{s.mem[1000:1100]}}, c
}

func TestFaultsAreErrors(t *testing.T) {
	for f, want := range map[faulty.Fault]errs.Code{
		faulty.ReadError: errs.FileReadFail, faulty.WriteError: errs.FileWriteFail, faulty.NoSpace: errs.NoAvailableHandle,
		faulty.NotThere: errs.ObjectNotFound, faulty.Damage: errs.ChecksumMismatch,
	} {
		s := start(t)
		s.plan.Fault(f, faulty.When{Nth: 2, Limit: 1})
		read, _ := s.write(1, 1)
		_, c := s.write(2, 2)
		for range 2 {
			s.submit(read)
			if r := s.reap(); c.Err == nil {
				c = r
			}
		}
		require.Equal(t, tier.Failed, c.Status)
		require.Equal(t, want, errs.CodeOf(c.Err))
		require.EqualValues(t, 1, s.plan.Count(f))
		_, c = s.write(3, 3)
		require.NoError(t, c.Err, "the limit is reached")
	}
}

func TestSlow(t *testing.T) {
	s := start(t)
	read, _ := s.write(1, 1)
	s.plan.Fault(faulty.Slow, faulty.When{Limit: 1})
	read.ID = 7
	s.submit(read)
	_, c := s.write(2, 2)
	require.EqualValues(t, 2, c.ID, "7 is held back")
	s.plan.Release()
	c = s.reap()
	require.EqualValues(t, 7, c.ID)
	require.Equal(t, tier.OK, c.Status)
}

func TestHang(t *testing.T) {
	s := start(t)
	read, _ := s.write(1, 1)
	s.plan.Fault(faulty.Hang, faulty.When{Limit: 1})
	read.Deadline = time.Now().Add(10 * time.Millisecond)
	s.submit(read)
	c := s.reap()
	require.Equal(t, tier.Quarantined, c.Status)
	require.Equal(t, errs.RPCTimeout, errs.CodeOf(c.Err))
	s.plan.Release()
	require.Equal(t, tier.Completion{Status: tier.Returned}, s.reap())
}

func TestBugsAreLies(t *testing.T) {
	read := func(s subject, o tier.Op) []byte {
		s.submit(o)
		require.Equal(t, tier.OK, s.reap().Status)
		return o.Local[0]
	}
	s := start(t)
	old, _ := s.write(1, 1)
	now, _ := s.write(2, 2)
	s.plan.Bug(faulty.StaleRecord, faulty.When{Limit: 1})
	require.EqualValues(t, 1, read(s, now)[0])
	require.EqualValues(t, 2, read(s, now)[0])
	s.plan.Bug(faulty.MisdirectedWrite, faulty.When{Limit: 1})
	s.write(3, 3)
	require.EqualValues(t, 3, read(s, now)[0], "the newest was overwritten")
	s.plan.Bug(faulty.TornWrite, faulty.When{Limit: 1})
	torn, _ := s.write(4, 4)
	require.Equal(t, []byte{4, 0}, read(s, torn)[49:51])
	s.plan.Bug(faulty.BitFlip, faulty.When{Limit: 1})
	require.EqualValues(t, 0, read(s, old)[0])
	s.plan.Bug(faulty.LostWrite, faulty.When{Limit: 1})
	lost, c := s.write(5, 5)
	require.Equal(t, tier.OK, c.Status)
	s.submit(lost)
	require.Equal(t, errs.ObjectNotFound, errs.CodeOf(s.reap().Err))
	s.plan.Bug(faulty.Duplicate, faulty.When{Limit: 1})
	read(s, old)
	require.Equal(t, tier.OK, s.reap().Status)
	s.plan.Bug(faulty.DoubleForget, faulty.When{})
	for range 2 {
		require.NoError(t, s.tier.Forget(t.Context(), []tier.Locator{old.At}))
	}
	s.submit(torn)
	require.Equal(t, errs.ObjectNotFound, errs.CodeOf(s.reap().Err), "the newest was forgotten")
	before := s.tier.Volume().Capacity
	s.plan.Bug(faulty.CapacityLie, faulty.When{})
	require.Equal(t, 2*before, s.tier.Volume().Capacity)
}
