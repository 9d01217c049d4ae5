package tiertest_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/sdk/conformance"
	"github.com/mooncake-go/mooncake/sdk/internal/rig"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/tier"
	"github.com/mooncake-go/mooncake/sdk/tier/tiertest"
	"github.com/mooncake-go/mooncake/sdk/tier/tiertest/reference"
)

// locked is a tier whose volume only one tier can open at a time.
type locked struct {
	tier.Tier
	lock *atomic.Bool
	held atomic.Bool
}

func (l *locked) Start(ctx context.Context, h plugin.Host) error {
	if l.lock.Swap(true) {
		return errBug
	}
	if err := l.Tier.Start(ctx, h); err != nil {
		l.lock.Store(false)
		return err
	}
	l.held.Store(true)
	return nil
}

func (l *locked) Stop(ctx context.Context) error {
	err := l.Tier.Stop(ctx)
	if l.held.Swap(false) {
		l.lock.Store(false)
	}
	return err
}

// TestTheVolumeOfTheDefaults: without WithConfig the suite opens one volume again and again, never
// twice at once, and destroys no record that was there before.
func TestTheVolumeOfTheDefaults(t *testing.T) {
	config := &reference.Config{Capacity: 8 << 20, Window: 64, Backing: reference.NewBacking(8 << 20)}
	lock := new(atomic.Bool)
	m := reference.Factory().Manifest()
	m.Capabilities, m.ConfigSchema = []plugin.Capability{tier.CapSurvives}, nil
	f := tier.Define(m, func() *reference.Config { return config }, func(c *reference.Config) (tier.Tier, error) {
		x, err := reference.Surviving().New(c)
		return &locked{Tier: x, lock: lock}, err
	})
	conformance.Test(t, tiertest.Suite(f))

	x, err := f.New(config)
	rig.Start(t, x, err)
	mem := []byte("value")
	require.NoError(t, x.Wipe(t.Context()))
	require.NoError(t, x.Register(t.Context(), tier.Region{ID: 1, Mem: mem, FD: -1}))
	_, err = x.Submit([]tier.Op{{Kind: tier.Write, Record: tier.Record{Key: mem, Size: 5}, Local: [][]byte{mem}}})
	require.NoError(t, err)
	require.NoError(t, x.Stop(t.Context()))
	report, err := conformance.Run(t.Context(), tiertest.Suite(f), conformance.Options{Run: "^(volume|wipe)$"})
	require.NoError(t, err)
	for _, c := range report.Checks {
		require.Equal(t, conformance.Fail, c.Status, "no check destroys the record")
		require.Contains(t, c.Log, "give it an empty one")
	}
}
