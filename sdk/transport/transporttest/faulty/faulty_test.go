package faulty_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
	"github.com/mooncake-go/mooncake/sdk/transport/transporttest"
	"github.com/mooncake-go/mooncake/sdk/transport/transporttest/faulty"
	"github.com/mooncake-go/mooncake/sdk/transport/transporttest/reference"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestWithoutRulesItIsTheTransport: a plan without rules changes nothing.
func TestWithoutRulesItIsTheTransport(t *testing.T) {
	n := reference.NewNetwork()
	transporttest.Run(t, faulty.Factory(n.Factory(), faulty.NewPlan()), n.Options()...)
}

// open returns a path that follows a plan, and a function that submits a read.
func open(t *testing.T, plan *faulty.Plan) (transport.Path, func(id uint64) error) {
	f := reference.NewNetwork().Factory()
	inner, err := f.New(f.DefaultConfig())
	require.NoError(t, err)
	tr := faulty.Wrap(inner, plan)
	require.NoError(t, tr.Start(t.Context(), nil))
	t.Cleanup(func() { require.NoError(t, tr.Stop(context.Background())) })
	key, err := tr.Register(t.Context(), transport.Region{ID: 1, Mem: make([]byte, 64), FD: -1, Access: transport.AccessRemote})
	require.NoError(t, err)
	buf := make([]byte, 64)
	_, err = tr.Register(t.Context(), transport.Region{ID: 2, Mem: buf, FD: -1})
	require.NoError(t, err)
	p, err := tr.Dial(t.Context(), tr.Endpoint())
	require.NoError(t, err)
	id, err := p.Import(t.Context(), key)
	require.NoError(t, err)
	return p, func(op uint64) error {
		_, err := p.Submit([]transport.Op{{ID: op, Kind: transport.Read, Local: buf[:8], Remote: id}})
		return err
	}
}

func reap(t *testing.T, p transport.Path, n int) []transport.Completion {
	out := make([]transport.Completion, n)
	for got := 0; got < n; {
		k, err := p.Reap(t.Context(), out[got:])
		require.NoError(t, err)
		got += k
	}
	return out
}

func TestFaults(t *testing.T) {
	plan := faulty.NewPlan()
	p, read := open(t, plan)
	only := func(id uint64) func(transport.Op) bool { return func(o transport.Op) bool { return o.ID == id } }
	for id, f := range map[uint64]faulty.Fault{1: faulty.Duplicate, 2: faulty.Fail, 3: faulty.Quarantine, 4: faulty.Lost, 5: faulty.Late, 6: faulty.Reject} {
		plan.Add(faulty.Rule{Fault: f, Match: only(id), Class: errs.ClassLocalDevice, Limit: 1})
	}
	require.NoError(t, read(1))
	got := reap(t, p, 2)
	require.Equal(t, got[0], got[1])
	require.NoError(t, read(1), "the limit is reached")
	require.Equal(t, transport.OK, reap(t, p, 1)[0].Status)
	require.NoError(t, read(2))
	c := reap(t, p, 1)[0]
	require.Equal(t, transport.Failed, c.Status)
	require.Equal(t, errs.ClassLocalDevice, c.Class())
	require.NoError(t, read(3))
	require.Equal(t, transport.Quarantined, reap(t, p, 1)[0].Status)
	require.NoError(t, read(4))
	require.NoError(t, read(5))
	require.NoError(t, read(7))
	require.EqualValues(t, 7, reap(t, p, 1)[0].ID, "4 is lost and 5 is late")
	plan.Release()
	require.EqualValues(t, 5, reap(t, p, 1)[0].ID)
	require.Equal(t, errs.ClassLocalDevice, errs.ClassOf(read(6)))
	require.EqualValues(t, 1, plan.Count(faulty.Lost))
	plan.Kill()
	require.Equal(t, errs.ClassTransientPath, errs.ClassOf(read(8)))
	plan.Revive()
	require.NoError(t, read(8))
	require.EqualValues(t, 8, reap(t, p, 1)[0].ID)
}
