package master_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/master"
	"github.com/mooncake-go/mooncake/core/master/internal/mastertest"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/alloc"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

var stranger = model.Caller{Client: model.UUID{Hi: 9, Lo: 9}}

// inUse fills a pool of 4 pages: one that is being written, one that is read under a lease, and
// two that are not in use. It returns the addresses of the first two.
func inUse(t *testing.T, r *rig) (busy []uint64) {
	t.Helper()
	for i, key := range []string{"written", "read", "idle0", "idle1"} {
		got, err := r.PutStart(r.ctx, stranger, items([]string{key}, page), model.DefaultReplicateConfig(), nil)
		require.NoError(t, err)
		require.NoError(t, got[0].Err)
		if i < 2 {
			busy = append(busy, got[0].Value[0].Address)
		}
		if i > 0 {
			ended, err := r.PutEnd(r.ctx, stranger, ends([]string{key}), nil)
			require.NoError(t, err)
			require.NoError(t, ended[0])
		}
	}
	require.Equal(t, one(errs.OK), r.get("read"))
	return busy
}

// silence lets the node's segments expire; the writer and the reader live on.
func (r *rig) silence(t *testing.T) {
	t.Helper()
	require.NoError(t, r.RemountSegments(r.ctx, stranger.Client, nil))
	for range 15 {
		settled(time.Second)
		_, err := r.Ping(r.ctx, stranger.Client, model.PingReport{})
		require.NoError(t, err)
	}
	p, err := r.Ping(r.ctx, r.client, model.PingReport{})
	require.NoError(t, err)
	require.Equal(t, model.ClientNeedRemount, p.Status)
}

// fill puts pages until there is no more space and returns their addresses.
func (r *rig) fill(t *testing.T) (at []uint64) {
	t.Helper()
	for i := range 9 {
		got, err := r.PutStart(r.ctx, stranger, items([]string{fmt.Sprint(time.Now().UnixNano(), i)}, page), model.DefaultReplicateConfig(), nil)
		require.NoError(t, err)
		if got[0].Err != nil {
			break
		}
		at = append(at, got[0].Value[0].Address)
	}
	return at
}

// Memory that is mounted again may still be in use by a client that was told of it before.
func TestMountingTheSameMemoryAgain(t *testing.T) {
	lasting := func(c *master.Config) { c.LeaseTTL = time.Minute }
	newID := func(s model.Segment) model.Segment { s.ID.Hi++; return s }
	same := func(s model.Segment) model.Segment { return s }
	for name, c := range map[string]struct {
		expire bool
		as     func(model.Segment) model.Segment
	}{
		"expired": {true, same}, "expired, new ID": {true, newID}, "unmounted": {false, same}, "unmounted, new ID": {false, newID},
		"twice the size": {false, func(s model.Segment) model.Segment { s.Size *= 2; return s }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := start(t, lasting, 4)
				busy := inUse(t, r)
				seg := c.as(r.segs[0])
				if c.expire {
					r.silence(t)
				} else {
					require.NoError(t, r.UnmountSegment(r.ctx, r.client, r.segs[0].ID, 0))
				}
				for range 2 { // the second time it is in quarantine already
					require.NoError(t, r.RemountSegments(r.ctx, r.client, []model.Segment{seg}))
					list, err := r.Segments(r.ctx)
					require.NoError(t, err)
					require.Equal(t, uint64(2*page), list[0].Used)
					require.Equal(t, float64(page), r.value("master_put_start_discarded_staging_size"))
					require.NoError(t, r.UnmountSegment(r.ctx, r.client, seg.ID, 0))
				}
				require.NoError(t, r.MountSegment(r.ctx, r.client, seg))
				got := r.fill(t)
				require.Len(t, got, int(seg.Size/page)-2)
				for _, at := range busy {
					require.NotContains(t, got, at, "given out while a client may be using it")
				}
				for range 62 { // the lease is over, and with it the reader
					settled(10 * time.Second)
					for _, id := range []model.ClientID{r.client, stranger.Client} {
						_, err := r.Ping(r.ctx, id, model.PingReport{})
						require.NoError(t, err)
					}
				}
				r.RemoveAll(r.ctx, model.Caller{}, true)
				require.Len(t, r.alloc.Live(), 0, "and so is the last writer")
				require.Zero(t, r.value("master_put_start_discarded_staging_size"))
			})
		})
	}
}

// Another client's addresses are another process's, and a restarted node has fresh memory.
func TestMountingTheSameAddressesOfAnotherProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, nil, 4)
		inUse(t, r)
		require.NoError(t, r.UnmountSegment(r.ctx, r.client, r.segs[0].ID, 0))
		require.NoError(t, r.MountSegment(r.ctx, model.UUID{Hi: 1, Lo: 2}, r.segs[0]))
		require.Len(t, r.fill(t), 4)
	})
}

// picky reserves nothing.
type picky struct{ alloc.Allocator }

func (picky) Reserve(_ context.Context, x []alloc.Extent) ([]error, error) {
	each := make([]error, len(x))
	each[0] = errs.New(errs.NoAvailableHandle, "test", "never given out")
	return each, nil
}

func TestMemoryInUseThatCannotBeSetAside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := mastertest.NewAlloc()
		r := startOn(t, picky{a}, mastertest.NewLRU(), nil, 4)
		inUse(t, r)
		require.NoError(t, r.UnmountSegment(r.ctx, r.client, r.segs[0].ID, 0))
		err := r.MountSegment(r.ctx, r.client, r.segs[0])
		require.Equal(t, errs.NoAvailableHandle, errs.CodeOf(err))
		require.ErrorContains(t, err, "may still be written or read")
		list, err := r.Segments(r.ctx)
		require.NoError(t, err)
		require.Empty(t, list)
		require.Empty(t, a.Live())
		settled(11 * time.Minute)
		require.NoError(t, r.MountSegment(r.ctx, r.client, r.segs[0]), "no client uses it any more")
	})
}

// A master that was restarted knows nothing of the leases that readers have of the one before.
func TestReadersOutliveTheMaster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, func(c *master.Config) { c.LeaseTTL = 7 * time.Second }, 1)
		old, again := model.UUID{Hi: 7}, []model.Segment{segment(1, page)}
		for range 7 {
			require.Equal(t, errs.UnavailableInCurrentStatus, errs.CodeOf(r.RemountSegments(r.ctx, old, again)))
			reply, err := r.Ping(r.ctx, old, model.PingReport{})
			require.NoError(t, err)
			require.Equal(t, model.ClientNeedRemount, reply.Status, "so that it tries again")
			r.keepAlive(time.Second)
		}
		require.NoError(t, r.RemountSegments(r.ctx, old, again))
		list, err := r.Segments(r.ctx)
		require.NoError(t, err)
		require.Len(t, list, 2)
	})
}

// A client is told to mount again until it could.
func TestAMountThatFailedIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, noLease, 1)
		lost, again := model.UUID{Hi: 7}, []model.Segment{segment(1, page)}
		overlap := segment(2, page)
		overlap.Base = again[0].Base
		require.Error(t, r.RemountSegments(r.ctx, lost, []model.Segment{again[0], overlap}))
		reply, err := r.Ping(r.ctx, lost, model.PingReport{})
		require.NoError(t, err)
		require.Equal(t, model.ClientNeedRemount, reply.Status)
		require.NoError(t, r.RemountSegments(r.ctx, lost, again))
		reply, err = r.Ping(r.ctx, lost, model.PingReport{})
		require.NoError(t, err)
		require.Equal(t, model.ClientOK, reply.Status)
		require.Error(t, r.RemountSegments(r.ctx, lost, []model.Segment{overlap}))
		reply, err = r.Ping(r.ctx, lost, model.PingReport{})
		require.NoError(t, err)
		require.Equal(t, model.ClientOK, reply.Status, "what it has mounted stays")
	})
}

// What a client mounts after the restart says nothing of what it had mounted before: that may still be read.
func TestAMountVouchesForNoOtherMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, func(c *master.Config) { c.LeaseTTL = 7 * time.Second }, 1)
		old, fresh, before := model.UUID{Hi: 7}, segment(1, page), segment(2, page)
		require.NoError(t, r.MountSegment(r.ctx, old, fresh))
		ping := func() model.ClientStatus {
			reply, err := r.Ping(r.ctx, old, model.PingReport{})
			require.NoError(t, err)
			return reply.Status
		}
		for range 7 {
			require.Equal(t, model.ClientNeedRemount, ping(), "it may have more")
			require.Equal(t, errs.UnavailableInCurrentStatus, errs.CodeOf(r.RemountSegments(r.ctx, old, []model.Segment{fresh, before})))
			r.keepAlive(time.Second)
		}
		require.NoError(t, r.RemountSegments(r.ctx, old, []model.Segment{fresh, before}))
		require.Equal(t, model.ClientOK, ping())
		list, err := r.Segments(r.ctx)
		require.NoError(t, err)
		require.Len(t, list, 3)
	})
}

// TestMemoryWithoutALedgerWaitsForWriters: what a client had mounted before this master began is mounted again when no client of
// before can read or write it; what it mounts anew is mounted at once.
func TestMemoryWithoutALedgerWaitsForWriters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, func(c *master.Config) { c.LeaseTTL, c.WriteGrace = 10*time.Second, time.Minute })
		old, fresh := segment(0, page), segment(1, page)
		require.NoError(t, r.MountSegment(r.ctx, r.client, fresh))
		require.NoError(t, r.RemountSegments(r.ctx, r.client, []model.Segment{fresh}))
		for range 59 {
			require.Equal(t, errs.UnavailableInCurrentStatus, errs.CodeOf(r.RemountSegments(r.ctx, r.client, []model.Segment{old, fresh})))
			settled(time.Second)
		}
		settled(time.Second)
		require.NoError(t, r.RemountSegments(r.ctx, r.client, []model.Segment{old, fresh}))
	})
}
