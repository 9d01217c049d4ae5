package master_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/master"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// brief has the default client_ttl, for pools of keepers.
func brief(c *master.Config) { c.ClientTTL = 10 * time.Second }

// writer is a client without memory that is known to the master and promises to stop writing.
func (r *rig) writer(quiet time.Duration) *rig {
	r.t.Helper()
	w := *r
	w.client = model.UUID{Hi: 5, Lo: 5}
	require.NoError(r.t, r.RemountSegments(r.ctx, w.client, nil))
	reply, err := r.Ping(r.ctx, w.client, model.PingReport{Quiet: quiet})
	require.NoError(r.t, err)
	require.Equal(r.t, model.ClientOK, reply.Status)
	return &w
}

// The unfinished puts of a client that dies are over with it. Their memory is free again when its
// writes must have ended, and the accounts agree all the time.
func TestUnfinishedPutsDieWithTheirClient(t *testing.T) {
	const promised = 30 * time.Second
	for name, c := range map[string]struct {
		quiet time.Duration
		free  time.Duration // after the put began
	}{
		"that promised to stop": {promised, promised},
		"that promised nothing": {0, 600 * time.Second},
		"that promised too little to be of use before the master notices": {time.Second, 10 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := start(t, nil, 4)
				w := r.writer(c.quiet)
				keys := names("k", 0, 4)
				w.begin(keys...)
				require.Equal(t, 4.0, r.value("master_open_puts"))
				require.NoError(t, r.Balance(r.ctx))
				r.keepAlive(9 * time.Second)
				require.Equal(t, 4.0, r.value("master_open_puts"), "it is alive as far as the master knows")
				r.keepAlive(3 * time.Second)
				require.Zero(t, r.value("master_open_puts"))
				require.Equal(t, one(errs.ObjectNotFound), w.end(keys[0]), "a late end")
				require.Equal(t, one(errs.ObjectNotFound), r.get(keys[0]))
				require.NoError(t, r.Balance(r.ctx))
				if left := c.free - 12*time.Second; left > 0 {
					segs, err := r.Segments(r.ctx)
					require.NoError(t, err)
					require.Equal(t, [2]uint64{0, 4 * page}, [2]uint64{segs[0].Writing, segs[0].Held})
					require.Equal(t, float64(4*page), r.value("master_held_bytes"))
					r.keepAlive(left - 2*time.Second)
					require.Equal(t, one(errs.NoAvailableHandle), r.begin("other"), "the client may be writing yet")
					require.NoError(t, r.Balance(r.ctx))
					r.keepAlive(4 * time.Second)
				}
				require.Zero(t, r.value("master_held_bytes"))
				require.Empty(t, r.alloc.Live())
				require.NoError(t, r.Balance(r.ctx))
				r.put(keys...)
				require.NoError(t, r.Balance(r.ctx))
			})
		})
	}
}

// A client that comes back while its memory is held was not dead, so that what it promised of its last
// ping says nothing about its writes.
func TestAWriterThatComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, nil, 4)
		w := r.writer(30 * time.Second)
		w.begin(names("k", 0, 4)...)
		r.keepAlive(15 * time.Second)
		r.writer(30 * time.Second) // the same client
		r.keepAlive(60 * time.Second)
		require.Equal(t, one(errs.NoAvailableHandle), r.begin("other"))
		require.NoError(t, r.Balance(r.ctx))
		r.keepAlive(527 * time.Second)
		require.Equal(t, one(errs.OK), r.begin("other"), "after put_start_release_timeout, as that of a client that never died")
	})
}

// What one client has unfinished, or given up and held back, is capped. Others are not concerned.
func TestOneClientCannotTakeThePool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, func(c *master.Config) { c.MaxOpenRatio = 0.5 }, 8)
		w := r.writer(0)
		got := w.begin(names("k", 0, 8)...)
		require.Equal(t, []errs.Code{0, 0, 0, 0}, got[:4])
		for _, c := range got[4:] {
			require.Equal(t, errs.NoAvailableHandle, c)
		}
		require.Equal(t, 4.0, r.value("master_put_start_capped_total"))
		refused, err := w.PutStart(r.ctx, model.Caller{Client: w.client}, items([]string{"more"}, page), model.DefaultReplicateConfig(), nil)
		require.NoError(t, err)
		require.ErrorContains(t, refused[0].Err, "max_open_ratio_per_client")
		require.True(t, errs.ClassOf(refused[0].Err).Retryable(), "waiting helps")
		require.Equal(t, []errs.Code{0, 0, 0}, r.begin("a", "b", "c"), "others are not concerned")

		require.Equal(t, one(errs.OK), w.end("k00000"))
		require.Equal(t, one(errs.OK), w.begin("k00004"), "a put that ended does not count")
		require.Equal(t, one(errs.OK), w.quarantine(model.RevokeItem{Key: "k00001"}))
		require.Equal(t, one(errs.NoAvailableHandle), w.begin("k00005"), "what is held back for it counts")
		require.Equal(t, errs.OK, errs.CodeOf(errOf(w.PutRevoke(r.ctx, model.Caller{Client: w.client}, revokes([]string{"k00002"})))))
		require.Equal(t, one(errs.OK), w.begin("k00005"))
		require.NoError(t, r.Balance(r.ctx))

		up := model.DefaultReplicateConfig()
		up.Upsert = true
		again, err := w.PutStart(r.ctx, model.Caller{Client: w.client}, items([]string{"k00000"}, page), up, nil)
		require.NoError(t, err)
		require.Equal(t, one(errs.NoAvailableHandle), codes(again), "upserts in place make objects unreadable")
		require.Equal(t, one(errs.OK), r.get("k00000"))
		for range 61 { // The quarantine is over, and its last account with it.
			for range 10 {
				_, err := r.Ping(r.ctx, w.client, model.PingReport{})
				require.NoError(t, err)
				r.keepAlive(time.Second)
			}
		}
		require.Equal(t, []errs.Code{0, 0, 0, 0, errs.NoAvailableHandle}, w.begin(names("l", 0, 5)...))
	})
}

func TestCapOfOpenPuts(t *testing.T) {
	r := start(t, func(c *master.Config) { c.MaxOpenPuts = 3 }, 64)
	require.Equal(t, []errs.Code{0, 0, 0, errs.NoAvailableHandle}, r.begin("a", "b", "c", "d"))
	got, err := r.PutStart(r.ctx, model.Caller{Client: r.client}, items([]string{"d"}, page), model.DefaultReplicateConfig(), nil)
	require.NoError(t, err)
	require.ErrorContains(t, got[0].Err, "max_open_puts_per_client")
	require.Equal(t, one(errs.ObjectAlreadyExists), r.begin("a"), "refused for another reason")
	r.end("a")
	require.Equal(t, []errs.Code{0, errs.NoAvailableHandle}, r.begin("d", "e"))
	require.NoError(t, r.UnmountSegment(r.ctx, r.client, r.segs[0].ID, 0))
	fresh := segment(1, 64*page)
	require.NoError(t, r.MountSegment(r.ctx, r.client, fresh))
	require.Eventually(t, func() bool { return r.value("master_open_puts") == 0 }, time.Minute, time.Millisecond, "the segment took them with it")
	require.Equal(t, []errs.Code{0, 0, 0, errs.NoAvailableHandle}, r.begin("a", "b", "c", "d"))
}

// An object may be larger than the cap: waiting would not help it.
func TestTheCapRefusesNoSingleObject(t *testing.T) {
	r := start(t, func(c *master.Config) { c.MaxOpenRatio = 0.25 }, 8)
	got, err := r.PutStart(r.ctx, model.Caller{Client: r.client}, items([]string{"large", "next"}, 7*page), model.DefaultReplicateConfig(), nil)
	require.NoError(t, err)
	require.Equal(t, []errs.Code{errs.OK, errs.NoAvailableHandle}, codes(got))
	require.ErrorContains(t, got[1].Err, "max_open_ratio_per_client")
}

// Calls at the same time get no more than one.
func TestTheCapHoldsForCallsAtTheSameTime(t *testing.T) {
	r := start(t, func(c *master.Config) { c.MaxOpenPuts = 50 }, 1024)
	var all sync.WaitGroup
	for i := range 16 {
		all.Go(func() { r.begin(names("k", 20*i, 20*i+20)...) })
	}
	all.Wait()
	require.Equal(t, 50.0, r.value("master_open_puts"))
	require.Equal(t, 16.0*20-50, r.value("master_put_start_capped_total"))
}

// A master that takes over holds back what writers were given before it, also where they were given up.
func TestAGivenUpWriterOutlivesTheMaster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newKeeper(t, 1, 2)
		r := startAttached(t, nil, a)
		r.begin("k")
		require.Equal(t, one(errs.OK), r.quarantine(model.RevokeItem{Key: "k"}))
		flushed()
		r.kill(t, a)
		r = startAttached(t, nil, a)
		require.NoError(t, r.Balance(r.ctx))
		settled(time.Minute)
		require.Equal(t, []errs.Code{errs.OK, errs.NoAvailableHandle}, r.begin("x", "y"))
		settled(10 * time.Minute)
		require.NoError(t, r.Balance(r.ctx))
		require.Equal(t, one(errs.OK), r.begin("y"))
	})
}

// A put that a master adopts ends with its client if that has come to this master, too.
func TestAnAdoptedPutEndsWithItsClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newKeeper(t, 1, 2)
		w := startAttached(t, brief, a).writer(0)
		w.begin("k", "l")
		flushed()
		w.kill(t, a)
		r := startAttached(t, brief, a)
		r.writer(20 * time.Second)
		require.Equal(t, 2.0, r.value("master_open_puts"))
		require.NoError(t, r.Balance(r.ctx))
		settled(15 * time.Second)
		require.Zero(t, r.value("master_open_puts"))
		require.NoError(t, r.Balance(r.ctx))
		require.Equal(t, one(errs.NoAvailableHandle), r.begin("x"))
		settled(10 * time.Second)
		require.Equal(t, []errs.Code{0, 0}, r.begin("x", "y"))
	})
}

// What operators see of absent and adopted memory.
func TestWhatIsSaidOfAbsentAndAdoptedMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newKeeper(t, 1, 4)
		r := startAttached(t, brief, a)
		r.put("k", "l")
		flushed()
		story, err := r.Why(r.ctx, model.Caller{}, "k")
		require.NoError(t, err)
		require.NotContains(t, story.Reason, "took it over")
		r.kill(t, a)
		r = startAttached(t, brief, a)
		story, err = r.Why(r.ctx, model.Caller{}, "k")
		require.NoError(t, err)
		require.Equal(t, model.FateReadable, story.Fate)
		require.Contains(t, story.Reason, "took it over from an earlier one")
		segs, err := r.Segments(r.ctx)
		require.NoError(t, err)
		require.Equal(t, uint64(2), segs[0].Adopted)
		require.Zero(t, segs[0].AbsentSince)
		a.leave()
		settled(15 * time.Second)
		segs, err = r.Segments(r.ctx)
		require.NoError(t, err)
		require.Len(t, segs, 1)
		require.NotZero(t, segs[0].AbsentSince)
		require.NoError(t, r.Balance(r.ctx))
		story, err = r.Why(r.ctx, model.Caller{}, "k")
		require.NoError(t, err)
		require.Equal(t, model.FateAbsent, story.Fate)
		require.Equal(t, uint64(page), story.Size)
		require.Contains(t, story.Reason, "segment_retention")
	})
}
