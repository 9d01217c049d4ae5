package tiertest_test

import (
	"context"
	"errors"

	"github.com/mooncake-go/mooncake/sdk/internal/rig"
	"github.com/mooncake-go/mooncake/sdk/tier"
)

// mortal plays a tier whose process ends and is started again.
type mortal struct {
	tier.Tier             // the one in use
	old       []tier.Tier // those that may still have completions, the one in use last
	next      func() (tier.Tier, error)
	regions   map[tier.RegionID]tier.Region
	forgets   bool // the regions
	loses     bool // what is in flight at the end
}

// kill ends the tier in use and starts the next one.
func (m *mortal) kill() error {
	_ = m.Tier.Stop(rig.Over())
	next, err := m.next()
	if err == nil {
		err = next.Start(context.Background(), rig.Host{})
	}
	if err != nil {
		return err
	}
	if m.loses {
		m.old = nil
	}
	m.Tier, m.old = next, append(m.old, next)
	for _, r := range m.regions {
		if m.forgets {
			break
		}
		if err := next.Register(context.Background(), r); err != nil {
			return err
		}
	}
	return nil
}

// Register implements tier.Tier.
func (m *mortal) Register(ctx context.Context, r tier.Region) error {
	err := m.Tier.Register(ctx, r)
	if err == nil {
		m.regions[r.ID] = r
	}
	return err
}

// Reap implements tier.Tier.
func (m *mortal) Reap(ctx context.Context, dst []tier.Completion) (int, error) {
	for {
		n, err := m.old[0].Reap(ctx, dst)
		if len(m.old) == 1 || !errors.Is(err, tier.ErrStopped) {
			return n, err
		}
		m.old = m.old[1:]
	}
}
