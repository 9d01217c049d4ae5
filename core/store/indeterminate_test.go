package store_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/internal/testkit/memtransport"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/core/store/client"
	"github.com/mooncake-go/mooncake/core/transfer"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// oldMaster is a master that cannot quarantine space, as core/api/rpc presents it.
type oldMaster struct{ store.Master }

func (o oldMaster) PutRevoke(ctx context.Context, c model.Caller, items []model.RevokeItem) ([]error, error) {
	out := make([]error, len(items))
	for i := range items {
		if items[i].Quarantined {
			out[i] = code(errs.NotSupported)
			continue
		}
		got, err := o.Master.PutRevoke(ctx, c, items[i:i+1])
		if err != nil {
			return nil, err
		}
		out[i] = got[0]
	}
	return out, nil
}

// indeterminate returns a pool of one node, whose memory has space for three values of
// indeterminateSize, and a client whose next writes are indeterminate: their bytes may arrive
// later.
func indeterminate(t *testing.T, writes int32) (*pool, *member) {
	p := newPool(t, nil)
	p.member("node:1", memberOptions{segments: []uint64{1 << 20}})
	c := p.member("client:1", memberOptions{})
	makeIndeterminate(c, writes)
	return p, c
}

const indeterminateSize = 300_000

// pinned makes an object stay, so that the next one gets only free space.
func pinned() model.ReplicateConfig { return model.ReplicateConfig{ReplicaNum: 1, HardPin: true} }

func makeIndeterminate(c *member, writes int32) {
	var left atomic.Int32
	left.Store(writes)
	c.wire.SetHook(func(e memtransport.Event) memtransport.Fault {
		if e.Kind == transport.Write && left.Add(-1) >= 0 {
			return memtransport.Fault{Err: errCut, Partial: true, Quarantine: true}
		}
		return memtransport.Fault{}
	})
}

// TestIndeterminatePutIsRetried: the retry uses a new allocation, and the old one stays unused
// until the timeout of the master.
func TestIndeterminatePutIsRetried(t *testing.T) {
	value := content("k", indeterminateSize)
	for name, put := range map[string]func(*member) error{
		"put":    func(c *member) error { return c.Put(t.Context(), "k", value, one) },
		"parts":  func(c *member) error { return c.PutFragments(t.Context(), "k", [][]byte{value[:7], value[7:]}, one) },
		"upsert": func(c *member) error { return c.Upsert(t.Context(), "k", value, one) },
		"upsert in place": func(c *member) error {
			c.wire.SetHook(nil)
			require.NoError(t, c.Put(t.Context(), "k", content("old", indeterminateSize), one))
			makeIndeterminate(c, 1)
			return c.Upsert(t.Context(), "k", value, one)
		},
	} {
		t.Run(name, func(t *testing.T) {
			p, c := indeterminate(t, 1)
			require.NoError(t, put(c))
			require.Equal(t, 1, c.count(t, "mooncake_client_puts_repeated_total"))
			require.Zero(t, c.count(t, "mooncake_client_puts_unrevoked_total"))
			got, err := c.Get(t.Context(), "k")
			require.NoError(t, err)
			require.Equal(t, value, got)
			require.NoError(t, c.Put(t.Context(), "other", content("other", indeterminateSize), pinned()))
			asked := p.tally()
			require.True(t, errs.Is(c.Put(t.Context(), "third", content("third", indeterminateSize), one), errs.NoAvailableHandle), "the first allocation is in quarantine")
			require.Equal(t, map[string]int{"PutStart": 1}, asked.take())
		})
	}
}

// TestIndeterminateBatch: the client retries only the indeterminate items of a batch.
func TestIndeterminateBatch(t *testing.T) {
	p, c := indeterminate(t, 0)
	permanent := errs.WithClass(errs.ClassPermanent, "test", errCut)
	c.wire.SetHook(func(e memtransport.Event) memtransport.Fault {
		switch e.N {
		case 2:
			return memtransport.Fault{Err: permanent, Partial: true, Quarantine: true}
		case 3:
			return memtransport.Fault{Err: permanent}
		}
		return memtransport.Fault{}
	})
	asked := p.tally()
	keys, values := []string{"a", "b", "c"}, [][]byte{content("a", 100), content("b", 100), content("c", 100)}
	got := c.BatchPut(t.Context(), keys, values, one)
	require.Equal(t, []errs.Code{errs.OK, errs.OK, errs.TransferFail}, codes(got))
	require.Equal(t, map[string]int{"PutStart": 2, "PutEnd": 2, "PutRevoke": 1}, asked.take())
	require.Equal(t, 1, c.count(t, "mooncake_client_puts_repeated_total"))
	for i, key := range keys[:2] {
		b, err := c.Get(t.Context(), key)
		require.NoError(t, err)
		require.Equal(t, values[i], b)
	}
	require.NoError(t, c.Put(t.Context(), "c", values[2], one), "a put that failed for certain is revoked only")
}

// TestTwiceIndeterminatePutFails: such a put fails and leaves the key free.
func TestTwiceIndeterminatePutFails(t *testing.T) {
	p, c := indeterminate(t, 1000)
	asked := p.tally()
	require.ErrorIs(t, c.Put(t.Context(), "k", content("k", indeterminateSize), one), transfer.ErrQuarantined)
	require.Equal(t, map[string]int{"PutStart": 2, "PutRevoke": 2}, asked.take())
	require.Equal(t, 1, c.count(t, "mooncake_client_puts_repeated_total"))
	c.wire.SetHook(nil)
	require.NoError(t, c.Put(t.Context(), "k", content("k", indeterminateSize), pinned()))
	require.True(t, errs.Is(c.Put(t.Context(), "other", content("other", indeterminateSize), one), errs.NoAvailableHandle), "both allocations are in quarantine")
}

// TestIndeterminatePutIsNotRetried: there is no retry if the master would not quarantine the first
// allocation, or if the caller has left.
func TestIndeterminatePutIsNotRetried(t *testing.T) {
	type setting struct {
		p      *pool
		c      *member
		cancel func()
	}
	// atRevoke does something before the master hears of the revoke.
	atRevoke := func(s setting, do func() error) {
		s.p.master.setHook(func(k call) error {
			if k.name != "PutRevoke" {
				return nil
			}
			s.p.master.setHook(nil)
			return do()
		})
	}
	for name, test := range map[string]struct {
		arrange   func(setting)
		unrevoked int
	}{
		"an old master": {func(s setting) { s.p.master.set(oldMaster{s.p.master.current()}) }, 1},
		"no answer":     {func(s setting) { atRevoke(s, func() error { return errDown }) }, 1},
		"a put that the master does not know": {func(s setting) {
			atRevoke(s, func() error {
				got, err := s.p.master.PutRevoke(context.Background(), model.Caller{Client: s.c.deps.ID}, []model.RevokeItem{{Key: "k"}})
				require.NoError(t, err)
				require.NoError(t, got[0])
				return nil
			})
		}, 1},
		"a caller that left": {func(s setting) { atRevoke(s, func() error { s.cancel(); return nil }) }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			p, c := indeterminate(t, 1)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			test.arrange(setting{p, c, cancel})
			require.ErrorIs(t, c.Put(ctx, "k", content("k", indeterminateSize), one), transfer.ErrQuarantined)
			require.Zero(t, c.count(t, "mooncake_client_puts_repeated_total"))
			require.Equal(t, test.unrevoked, c.count(t, "mooncake_client_puts_unrevoked_total"))
		})
	}
}

// TestIndeterminatePutAtItsEnd: there is no retry once the time for transfers, which is that of the
// whole put, has passed.
func TestIndeterminatePutAtItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, nil)
		p.member("node:1", memberOptions{segments: []uint64{segment}})
		const bound = 4 * time.Second // below the engine's own for an operation
		c := p.member("client:1", memberOptions{client: func(cfg *client.Config) { cfg.TransferTimeout = bound }})
		for _, late := range []bool{true, false} {
			var first atomic.Bool
			c.wire.SetHook(func(memtransport.Event) memtransport.Fault {
				if late || !first.CompareAndSwap(false, true) {
					return memtransport.Fault{Stall: true, Quarantine: true}
				}
				return memtransport.Fault{Err: errCut, Quarantine: true, Delay: 3 * time.Second}
			})
			began := time.Now()
			require.ErrorIs(t, c.Put(t.Context(), "k", content("k", 100), one), transfer.ErrQuarantined)
			require.Equal(t, bound, time.Since(began).Truncate(time.Second))
			require.Equal(t, map[bool]int{true: 0, false: 1}[late], c.count(t, "mooncake_client_puts_repeated_total"))
		}
	})
}

// TestUnconfirmedPutIsRetried: a put of which a node does not confirm to the master where it writes gets
// other memory, twice at most. One for which the caller prefers a place is not.
func TestUnconfirmedPutIsRetried(t *testing.T) {
	preferred := one
	preferred.PreferredSegments = []string{"a:1"}
	for name, c := range map[string]struct {
		silent, starts int
		how            model.ReplicateConfig
		fails          bool
	}{
		"a node":        {1, 2, one, false},
		"two nodes":     {2, 3, one, false},
		"more":          {9, 3, one, true},
		"the preferred": {1, 1, preferred, true},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPool(t, nil)
			p.member("a:1", memberOptions{segments: []uint64{segment}})
			w := p.member("c:1", memberOptions{})
			starts := 0
			p.master.setHook(func(k call) error {
				if k.name != "PutStart" {
					return nil
				}
				if starts++; starts > c.silent {
					return nil
				}
				return errs.WithClass(errs.ClassTransientPeer, "", errs.New(errs.UnavailableInCurrentStatus, "", "a node did not confirm"))
			})
			err := w.Put(t.Context(), "k", content("k", 1000), c.how)
			require.Equal(t, c.starts, starts)
			require.Equal(t, c.starts-1, w.count(t, "mooncake_client_puts_repeated_total"))
			if c.fails {
				require.True(t, errs.Is(err, errs.UnavailableInCurrentStatus), "%v", err)
				return
			}
			require.NoError(t, err)
			got, err := w.Get(t.Context(), "k")
			require.NoError(t, err)
			require.Equal(t, content("k", 1000), got)
		})
	}
}
