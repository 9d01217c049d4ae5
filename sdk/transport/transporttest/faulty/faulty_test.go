package faulty_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
	"github.com/mooncake-go/mooncake/sdk/transport/transporttest"
	"github.com/mooncake-go/mooncake/sdk/transport/transporttest/faulty"
	"github.com/mooncake-go/mooncake/sdk/transport/transporttest/reference"
	"github.com/mooncake-go/mooncake/sdk/x/crc32c"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestWithoutRulesItIsTheTransport: a plan without rules changes nothing.
func TestWithoutRulesItIsTheTransport(t *testing.T) {
	n := reference.NewNetwork()
	transporttest.Run(t, faulty.Factory(n.Factory(), faulty.NewPlan()), n.Options()...)
}

// open returns a path that follows a plan, and a function that submits a read.
func open(t *testing.T, plan *faulty.Plan) (transport.Path, func(id uint64) error) {
	p, submit, _ := wired(t, plan)
	return p, func(id uint64) error {
		return submit(transport.Op{ID: id, Kind: transport.Read, Local: make([]byte, 8)})
	}
}

// wired returns a path to the returned 64 bytes, and a function that submits an operation on them.
func wired(t *testing.T, plan *faulty.Plan) (transport.Path, func(transport.Op) error, []byte) {
	inner, err := reference.NewNetwork().Factory().New(&reference.Config{Window: 1 << 10, LocalAny: true})
	require.NoError(t, err)
	tr := faulty.Wrap(inner, plan)
	require.NoError(t, tr.Start(t.Context(), nil))
	t.Cleanup(func() { require.NoError(t, tr.Stop(context.Background())) })
	mem := make([]byte, 64)
	key, err := tr.Register(t.Context(), transport.Region{ID: 1, Mem: mem, FD: -1, Access: transport.AccessRemote})
	require.NoError(t, err)
	p, err := tr.Dial(t.Context(), tr.Endpoint())
	require.NoError(t, err)
	id, err := p.Import(t.Context(), key)
	require.NoError(t, err)
	return p, func(o transport.Op) error {
		o.Remote = id
		_, err := p.Submit([]transport.Op{o})
		return err
	}, mem
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

// TestEffects: what a decided effect does to the bytes, the completion and the time of a write.
func TestEffects(t *testing.T) {
	cut := errs.WithClass(errs.ClassPermanent, "test", errs.New(errs.TransferFail, "", "cut"))
	const second = time.Second
	for name, c := range map[string]struct {
		effect  faulty.Effect
		mem     string // when Submit has returned
		arrives string
		after   time.Duration
		class   errs.Class // of the failure, 0 for OK
		sum     bool
	}{
		"nothing":          {faulty.Effect{}, "abcdefgh", "abcdefgh", 0, 0, true},
		"an error":         {faulty.Effect{Err: cut}, "........", "........", 0, errs.ClassPermanent, false},
		"half":             {faulty.Effect{Err: cut, Partial: true, Delay: second}, "abcd....", "abcd....", second, errs.ClassPermanent, false},
		"delay":            {faulty.Effect{Delay: second}, "abcdefgh", "abcdefgh", second, 0, true},
		"late":             {faulty.Effect{Delay: second, Late: true}, "........", "abcdefgh", second, 0, true},
		"stall":            {faulty.Effect{Stall: true}, "........", "........", 3 * second, errs.ClassTransientPath, false},
		"corrupt":          {faulty.Effect{Corrupt: true}, "abcddfgh", "abcddfgh", 0, 0, true},
		"no checksum":      {faulty.Effect{NoSum: true}, "abcdefgh", "abcdefgh", 0, 0, false},
		"killed meanwhile": {faulty.Effect{Hold: true, Late: true}, "........", "........", 0, errs.ClassTransientPath, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				plan := faulty.NewPlan()
				p, submit, mem := wired(t, plan)
				copy(mem, "........")
				plan.Decide(func(transport.Op) faulty.Effect { return c.effect })
				begin := time.Now()
				require.NoError(t, submit(transport.Op{ID: 9, Kind: transport.Write, Local: []byte("abcdefgh"), Sum: true, Deadline: begin.Add(3 * second)}))
				require.Equal(t, c.mem, string(mem[:8]))
				if c.effect.Hold {
					plan.Kill()
				}
				got := reap(t, p, 1)[0]
				require.Equal(t, c.after, time.Since(begin))
				require.Equal(t, c.arrives, string(mem[:8]))
				require.EqualValues(t, 9, got.ID)
				require.Equal(t, c.class == 0, got.Status == transport.OK)
				require.Equal(t, c.class, got.Class())
				require.Equal(t, c.sum, got.Summed)
				if c.sum {
					require.Equal(t, crc32c.Sum([]byte("abcdefgh")), got.Sum, "of what was meant to arrive")
				}
			})
		})
	}
}

// TestClosedPathEndsWhatIsHeld: once, and what was held moves no bytes afterwards.
func TestClosedPathEndsWhatIsHeld(t *testing.T) {
	plan := faulty.NewPlan()
	p, submit, mem := wired(t, plan)
	plan.Decide(func(transport.Op) faulty.Effect { return faulty.Effect{Hold: true, Late: true} })
	require.NoError(t, submit(transport.Op{ID: 1, Kind: transport.Write, Local: []byte("x")}))
	require.NoError(t, p.Close(t.Context()))
	plan.Release()
	require.Equal(t, errs.ClassTransientPath, reap(t, p, 1)[0].Class())
	_, err := p.Reap(t.Context(), make([]transport.Completion, 1))
	require.ErrorIs(t, err, transport.ErrPathClosed)
	require.Zero(t, mem[0])
}
