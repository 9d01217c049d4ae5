package tierwire

import (
	"context"
	"slices"

	"github.com/mooncake-go/mooncake/sdk/errs"
	tierv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/tier/v1"
	"github.com/mooncake-go/mooncake/sdk/tier"
	"github.com/mooncake-go/mooncake/sdk/wire"
)

// Volume implements tier.Tier. If the plugin does not answer, it returns the last answer.
func (t *Client) Volume() tier.Volume {
	if t.usable("volume") == nil {
		m, err := wire.Call(t.ctx, t.caller, "volume", t.rpc.Volume, &tierv1.VolumeRequest{})
		if err == nil {
			t.learn("volume", m.GetVolume())
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.volume
}

// learn keeps a volume that the plugin sent.
func (t *Client) learn(op string, m *tierv1.Volume) {
	v, err := decodeVolume(m)
	if err != nil {
		_ = t.garbage(op, err)
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.volume = v
}

// Space implements tier.Tier. It asks the plugin once for each pair of lengths. If the plugin does
// not answer, it returns the size.
func (t *Client) Space(r tier.Record) uint64 {
	lengths := [2]uint64{uint64(len(r.Key)), r.Size}
	t.mu.Lock()
	space, known := t.spaces[lengths]
	t.mu.Unlock()
	if known {
		return space
	}
	m, err := wire.Call(t.ctx, t.caller, "space", t.rpc.Space, &tierv1.SpaceRequest{Key: uint32(min(len(r.Key), tier.MaxKey)), Size: r.Size})
	if err != nil {
		return r.Size
	}
	space = max(r.Size, m.GetSpace())
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.spaces) == maxSpaces {
		clear(t.spaces)
	}
	t.spaces[lengths] = space
	return space
}

// Forget implements tier.Tier.
func (t *Client) Forget(ctx context.Context, at []tier.Locator) error {
	if err := t.usable("forget"); err != nil {
		return err
	}
	for part := range slices.Chunk(at, maxForget) {
		m := &tierv1.ForgetRequest{At: make([]*tierv1.Locator, 0, len(part))}
		for _, l := range part {
			if l != (tier.Locator{}) {
				m.At = append(m.At, encodeLocator(l))
			}
		}
		if _, err := wire.Call(ctx, t.caller, "forget", t.rpc.Forget, m); err != nil {
			return err
		}
	}
	return nil
}

// Scan implements tier.Tier. It stores at most maxFound records.
func (t *Client) Scan(ctx context.Context, from tier.Cursor, dst []tier.Found) (int, tier.Cursor, error) {
	if err := t.usable("scan"); err != nil {
		return 0, from, err
	}
	if len(dst) == 0 {
		return 0, from, errs.New(errs.InvalidParams, t.caller.ID+": scan", "there is no place for records")
	}
	dst = dst[:min(len(dst), maxFound)]
	m, err := wire.Call(ctx, t.caller, "scan", t.rpc.Scan, &tierv1.ScanRequest{FromA: from[0], FromB: from[1], Limit: uint32(len(dst))})
	if err != nil {
		return 0, from, err
	}
	if err := decodeFound(m.GetFound(), dst); err != nil {
		return 0, from, t.garbage("scan", err)
	}
	return len(m.GetFound()), tier.Cursor{m.GetNextA(), m.GetNextB()}, nil
}

// Flush implements tier.Tier.
func (t *Client) Flush(ctx context.Context) error {
	if err := t.usable("flush"); err != nil {
		return err
	}
	_, err := wire.CallWithin(ctx, t.caller, slowCall, "flush", t.rpc.Flush, &tierv1.FlushRequest{})
	return err
}

// Wipe implements tier.Tier.
func (t *Client) Wipe(ctx context.Context) error {
	t.mu.Lock()
	last, err := t.last, t.usableLocked("wipe")
	t.mu.Unlock()
	if err != nil {
		return err
	}
	m, err := wire.CallWithin(ctx, t.caller, slowCall, "wipe", t.rpc.Wipe, &tierv1.WipeRequest{After: last})
	if err == nil {
		t.learn("wipe", m.GetVolume())
	}
	return err
}

// Stats implements tier.Tier.
func (t *Client) Stats(ctx context.Context) (tier.Stats, error) {
	if err := t.usable("stats"); err != nil {
		return tier.Stats{}, err
	}
	m, err := wire.Call(ctx, t.caller, "stats", t.rpc.Stats, &tierv1.StatsRequest{})
	if err != nil {
		return tier.Stats{}, err
	}
	return decodeStats(m), nil
}
