package tierwire_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/tier"
	"github.com/mooncake-go/mooncake/sdk/tier/tiertest"
	"github.com/mooncake-go/mooncake/sdk/tier/tiertest/reference"
)

// narrow is a tier behind a connection that accepts one operation at a time. The first one hangs until
// resume.
type narrow struct {
	tier.Tier
	t      *testing.T
	resume func()
	mem    []byte
}

func newNarrow(t *testing.T) *narrow {
	inner := reference.Surviving()
	storage := reference.NewBacking(1 << 20)
	f := tier.Define(inner.Manifest(), func() *plugin.NoConfig { return &plugin.NoConfig{} }, func(*plugin.NoConfig) (tier.Tier, error) {
		return inner.New(&reference.Config{Window: 1, Backing: storage})
	})
	x, err := tiertest.ThroughWire(t, f, tiertest.WireOptions{}).New(&plugin.NoConfig{})
	require.NoError(t, err)
	mem, fd := tiertest.SealedMemory(t, 1<<16)
	require.NoError(t, x.Start(t.Context(), nil))
	n := &narrow{x, t, storage.Hang(), mem}
	t.Cleanup(func() {
		n.resume()
		require.NoError(t, x.Stop(context.Background()))
	})
	require.NoError(t, x.Register(t.Context(), tier.Region{ID: 1, Mem: mem, FD: fd}))
	n.submit(n.write(1))
	require.Eventually(t, func() bool { // It is at the storage.
		st, err := x.Stats(t.Context())
		return err == nil && st.Oldest > 0
	}, time.Minute, time.Millisecond)
	return n
}

func (n *narrow) write(id uint64) tier.Op {
	return tier.Op{ID: id, Kind: tier.Write, Record: tier.Record{Key: fmt.Append(nil, id), Size: 100}, Local: [][]byte{n.mem[:100]}}
}

func (n *narrow) submit(ops ...tier.Op) {
	k, err := n.Submit(ops)
	require.NoError(n.t, err)
	require.Equal(n.t, len(ops), k)
}

// reap returns so many completions in their order.
func (n *narrow) reap(count int) (out []tier.Completion) {
	for dst := make([]tier.Completion, 1); len(out) < count; out = append(out, dst[0]) {
		_, err := n.Reap(n.t.Context(), dst)
		require.NoError(n.t, err)
	}
	return out
}

// TestWipeComesAfterWhatWasSubmitted: writes that the tier has not accepted fail, and leave no record.
func TestWipeComesAfterWhatWasSubmitted(t *testing.T) {
	n := newNarrow(t)
	var ops []tier.Op
	for id := range uint64(100) {
		ops = append(ops, n.write(2+id))
	}
	n.submit(ops...)
	require.NoError(t, n.Wipe(t.Context()))
	for _, c := range n.reap(100) {
		require.Equal(t, tier.Failed, c.Status)
		require.ErrorIs(t, c.Err, errs.UnavailableInCurrentStatus.Err())
	}
	n.resume()
	n.reap(1)
	found, _, err := n.Scan(t.Context(), tier.Cursor{}, make([]tier.Found, 1))
	require.NoError(t, err)
	require.Zero(t, found)
}

// TestUrgentOperationsOvertake those that the tier has not accepted.
func TestUrgentOperationsOvertake(t *testing.T) {
	n := newNarrow(t)
	urgent := n.write(9)
	urgent.Urgent = true
	n.submit(n.write(2), n.write(3), urgent)
	late := n.write(4)
	late.Deadline = time.Now().Add(time.Millisecond)
	n.submit(late)
	require.EqualValues(t, 4, n.reap(1)[0].ID, "all have arrived")
	n.resume()
	var order []uint64
	for _, c := range n.reap(4) {
		order = append(order, c.ID)
	}
	require.Equal(t, []uint64{1, 9, 2, 3}, order)
}

// TestDeadlinesOfOperationsThatWait: they end although the tier accepts nothing.
func TestDeadlinesOfOperationsThatWait(t *testing.T) {
	n := newNarrow(t)
	o := n.write(2)
	o.Deadline = time.Now().Add(time.Millisecond)
	n.submit(o, n.write(3))
	c := n.reap(1)[0]
	require.EqualValues(t, 2, c.ID)
	require.Equal(t, tier.Failed, c.Status)
	require.ErrorIs(t, c.Err, errs.RPCTimeout.Err())
	n.resume()
	n.reap(2)
}
