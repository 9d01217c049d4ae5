package master_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/ledger"
	"github.com/mooncake-go/mooncake/core/master"
	"github.com/mooncake-go/mooncake/core/master/journal"
	"github.com/mooncake-go/mooncake/core/master/segments"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// TestALedgerOfALaterReleaseIsRefused: a master that writes what the node cannot read would make it lose its objects.
func TestALedgerOfALaterReleaseIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(t, 1, 64)
		r := startAttached(t, nil, k)
		seg := segment(99, 64*page)
		_, err := r.Attach(r.ctx, k.client, []model.LedgerState{{Segment: seg, Layout: ledger.Layout + 1}})
		require.ErrorIs(t, err, errs.InvalidVersion.Err())
		require.ErrorContains(t, err, "has layout 2")
		_, err = r.Attach(r.ctx, k.client, []model.LedgerState{{Segment: seg, Layout: ledger.Layout}})
		require.NoError(t, err)
	})
}

// TestAPutIsRevokedWhileItsSegmentAttaches: a put is over that its writer revokes when a node that moved, or that another
// master knew, has attached and not reported yet.
func TestAPutIsRevokedWhileItsSegmentAttaches(t *testing.T) {
	for name, another := range map[string]bool{"the same master": false, "another master": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := newKeeper(t, 1, 64)
				r := startAttached(t, nil, k)
				keys, writer := []string{"revoked", "quarantined", "goes on", "another client's"}, model.Caller{Client: r.client}
				got, err := r.PutStart(r.ctx, writer, items(keys, page), model.DefaultReplicateConfig(), nil)
				require.NoError(t, err)
				revoke := func(i int, caller model.Caller, quarantined bool) {
					out, err := r.PutRevoke(r.ctx, caller, []model.RevokeItem{{Key: keys[i], Put: got[i].Value[0].ID, Quarantined: quarantined}})
					require.NoError(t, err)
					require.True(t, errs.Is(out[0], errs.ObjectNotFound), "%v", out[0])
				}
				flushed()
				if another {
					r.kill(t, k)
					r = startAttached(t, nil)
				}
				k.segs[0].Endpoint = "moved:1"
				k.between = func() {
					revoke(0, writer, false)
					revoke(1, writer, true)
					revoke(3, model.Caller{Client: model.NewUUID()}, false)
				}
				k.join(r)
				flushed()
				segs, err := r.Segments(r.ctx)
				require.NoError(t, err)
				require.Len(t, segs, 1)
				require.EqualValues(t, 2*page, segs[0].Writing, "one goes on, and a stranger revokes nothing")
				require.EqualValues(t, 2*page, segs[0].Held, "a peer may still write to one, and the ledger cannot tell whether the other was read")
				require.EqualValues(t, 4*page, segs[0].Used)
				require.NoError(t, r.Balance(r.ctx))
				settled(journal.Validity + master.DefaultConfig().LeaseTTL + 2*time.Second)
				segs, err = r.Segments(r.ctx)
				require.NoError(t, err)
				require.EqualValues(t, page, segs[0].Held, "a peer may still write")
				require.NoError(t, r.Balance(r.ctx))
				ended, err := r.PutEnd(r.ctx, writer, ends(keys[2:3]), nil)
				require.NoError(t, err)
				require.NoError(t, ended[0])
			})
		})
	}
}

// TestARestartedMasterKnowsWhatLies: everything that a master knows of readable objects is in the ledgers.
func TestARestartedMasterKnowsWhatLies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := newKeeper(t, 1, 64), newKeeper(t, 2, 64, 64)
		configure := func(c *master.Config) { c.StripeSize = 1 << 20 }
		r := startAttached(t, configure, a, b)
		r.put(names("k", 0, 20)...)
		two := model.ReplicateConfig{ReplicaNum: 2, HardPin: true}
		caller := model.Caller{Client: r.client}
		started, err := r.PutStart(r.ctx, caller, []model.PutItem{{Key: "two", Size: 2 * page, Group: "g"}}, two, nil)
		require.NoError(t, err)
		require.Len(t, started[0].Value, 2)
		require.Equal(t, one(errs.OK), r.end("two"))
		ttl := time.Hour
		_, err = r.PutStart(r.ctx, caller, items([]string{"soft"}, page), model.ReplicateConfig{ReplicaNum: 1, SoftPin: model.SoftPin{Action: model.SoftPinEnable, TTL: &ttl}, DataType: model.DataGeneral}, nil)
		require.NoError(t, err)
		require.Equal(t, one(errs.OK), r.end("soft"))
		require.Equal(t, one(errs.OK), r.begin("unfinished"))
		r.put("removed", "replaced")
		require.Equal(t, one(errs.OK), r.remove(true, "removed"))
		up := model.ReplicateConfig{ReplicaNum: 1, Upsert: true}
		_, err = r.PutStart(r.ctx, caller, items([]string{"replaced"}, page), up, nil)
		require.NoError(t, err)
		require.Equal(t, one(errs.OK), r.end("replaced"))
		flushed()
		keys := r.here()
		require.Len(t, keys, 23)
		want := r.PeekReplicas(keys)
		soft := r.value("master_soft_pin_key_count")
		r.kill(t, a, b)

		r = startAttached(t, configure, b, a)
		require.Equal(t, keys, r.here())
		for i, got := range r.PeekReplicas(keys) {
			require.Equal(t, want[i].Value.Size, got.Value.Size, keys[i])
			require.Equal(t, want[i].Value.Checksum, got.Value.Checksum, keys[i])
			require.ElementsMatch(t, want[i].Value.Replicas, got.Value.Replicas, keys[i])
		}
		require.Equal(t, soft, r.value("master_soft_pin_key_count"))
		require.Equal(t, one(errs.ObjectNotFound), r.get("removed"))
		require.Equal(t, one(errs.ReplicaIsNotReady), r.get("unfinished"))
		require.Equal(t, one(errs.OK), r.end("unfinished"), "its writer goes on")
		require.Equal(t, one(errs.OK), r.get("unfinished"))
		flushed()
		r.kill(t, a, b)

		r = startAttached(t, configure, a, b)
		require.Equal(t, one(errs.OK), r.get("unfinished"), "also after one more")
		for _, x := range r.PeekReplicas(keys) {
			require.NoError(t, x.Err)
		}
	})
}

// TestStripedObjectsComeBackWhole: an object over several segments is there when all of them are.
func TestStripedObjectsComeBackWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := newKeeper(t, 1, 2<<10), newKeeper(t, 2, 2<<10)
		configure := func(c *master.Config) { c.StripeSize = 1 << 20 }
		r := startAttached(t, configure, a, b)
		caller := model.Caller{Client: r.client}
		got, err := r.PutStart(r.ctx, caller, []model.PutItem{{Key: "s", Size: 3<<20 + 5}}, model.DefaultReplicateConfig(), nil)
		require.NoError(t, err)
		require.Len(t, got[0].Value[0].More, 3)
		require.Equal(t, one(errs.OK), r.end("s"))
		flushed()
		want := r.PeekReplicas([]string{"s"})
		r.kill(t, a, b)
		r = startAttached(t, configure, a)
		require.Equal(t, one(errs.ObjectNotFound), r.get("s"))
		b.join(r)
		require.Equal(t, want, r.PeekReplicas([]string{"s"}))
		require.Equal(t, one(errs.OK), r.remove(true, "s"))
		settled(time.Minute) // Readers of the master before may go on for a while.
		require.Zero(t, a.logs[a.segs[0].ID].Len()+b.logs[b.segs[0].ID].Len(), "all parts are gone from the ledgers")
	})
}

// TestAWriterIsKnownBeforeItIsAnswered (L2): a node that does not confirm gets no object, and the put fails within bounded time.
func TestAWriterIsKnownBeforeItIsAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newKeeper(t, 1, 4)
		r := startAttached(t, nil, a)
		require.Equal(t, one(errs.OK), r.begin("k"))
		require.Equal(t, 1, a.logs[a.segs[0].ID].Len(), "the ledger knows the writer when it is answered")
		a.mute.Store(true)
		require.Equal(t, one(errs.UnavailableInCurrentStatus), r.begin("l"))
		a.mute.Store(false)
		flushed()
		require.Equal(t, []errs.Code{0, 0, 0, errs.NoAvailableHandle}, r.begin("1", "2", "3", "4"), "the space of l is free")
	})
}

// TestAPutThatIsTriedAgainGoesElsewhere: from the first put that a node does not confirm, others go to the
// nodes that do, at once.
func TestAPutThatIsTriedAgainGoesElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := newKeeper(t, 1, 64), newKeeper(t, 2, 64)
		r := startAttached(t, nil, a)
		b.join(r)
		flushed()
		b.mute.Store(true)
		failed, keys := 0, 0
		for ; failed == 0; keys++ {
			if r.begin(fmt.Sprint("k", keys))[0] == errs.UnavailableInCurrentStatus {
				failed++
			}
		}
		begin := time.Now()
		for i := range 30 - min(keys, 20) {
			require.Equal(t, one(errs.OK), r.begin(fmt.Sprint("l", i)))
		}
		require.Zero(t, time.Since(begin), "none waits for the node")
		b.mute.Store(false)
	})
}

// TestAWriterOfACopyIsKnown (L2), as that of a put.
func TestAWriterOfACopyIsKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := newKeeper(t, 1, 4), newKeeper(t, 2, 4)
		r := startAttached(t, nil, a)
		r.put("k")
		b.join(r)
		flushed()
		caller := model.Caller{Client: r.client}
		b.mute.Store(true)
		_, err := r.CopyStart(r.ctx, caller, model.CopyObject, "k", "", []string{b.segs[0].Name})
		require.Equal(t, errs.UnavailableInCurrentStatus, errs.CodeOf(err), "%v", err)
		b.mute.Store(false)
		flushed()
		_, err = r.CopyStart(r.ctx, caller, model.CopyObject, "k", "", []string{b.segs[0].Name})
		require.NoError(t, err)
		require.Equal(t, 1, b.logs[b.segs[0].ID].Len(), "the ledger knows the writer when it is answered")
		require.NoError(t, r.CopyEnd(r.ctx, caller, model.CopyObject, "k"))
		flushed()
		r.kill(t, a, b)
		r = startAttached(t, nil, a, b)
		require.Len(t, r.PeekReplicas([]string{"k"})[0].Value.Replicas, 2)
	})
}

// TestAReplicaThatMovedAwayDoesNotComeBack (L6): the removal of an object waits for the ledger that it was moved away from.
func TestAReplicaThatMovedAwayDoesNotComeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := newKeeper(t, 1, 4), newKeeper(t, 2, 4)
		r := startAttached(t, nil, a)
		r.put("k")
		b.join(r)
		flushed()
		caller := model.Caller{Client: r.client}
		_, err := r.CopyStart(r.ctx, caller, model.MoveObject, "k", a.segs[0].Name, []string{b.segs[0].Name})
		require.NoError(t, err)
		a.mute.Store(true)
		require.NoError(t, r.CopyEnd(r.ctx, caller, model.MoveObject, "k"))
		time.AfterFunc(500*time.Millisecond, func() { a.mute.Store(false) })
		require.Equal(t, one(errs.OK), r.remove(true, "k"))
		r.kill(t, a, b)
		r = startAttached(t, nil, a, b)
		require.Empty(t, r.here())
	})
}

// TestMemoryIsFreeWhenTheLedgerSaysSo (L1).
func TestMemoryIsFreeWhenTheLedgerSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newKeeper(t, 1, 2)
		r := startAttached(t, nil, a)
		r.put("a", "b")
		flushed()
		a.mute.Store(true)
		require.Equal(t, one(errs.UnavailableInCurrentStatus), r.remove(true, "a"), "the ledger does not know yet")
		require.Equal(t, one(errs.ObjectNotFound), r.get("a"))
		require.Len(t, r.alloc.Live(), 2)
		a.mute.Store(false)
		flushed()
		require.Len(t, r.alloc.Live(), 1)
		require.Equal(t, one(errs.OK), r.begin("c"))
		require.Equal(t, one(errs.OK), r.begin("d"), "b makes way, and the put waits for its ledger")
	})
}

// TestADeposedMasterPromisesNothing (L4, L5): a node obeys the last master that it attached to.
func TestADeposedMasterPromisesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newKeeper(t, 1, 8)
		old := startAttached(t, nil, a)
		old.put("k", "l")
		flushed()
		require.Equal(t, one(errs.OK), old.get("k"))
		log := a.logs[a.segs[0].ID]
		late := model.LedgerState{Segment: a.segs[0], Fence: uint64(log.Fenced()), Seq: uint64(log.Seq())}
		r := startAttached(t, nil)
		a.join(r)
		require.Equal(t, []errs.Code{0, 0}, r.get("k", "l"))
		require.Equal(t, one(errs.UnavailableInCurrentStatus), old.begin("m"), "the ledger does not obey it any more")
		require.Equal(t, one(errs.UnavailableInCurrentStatus), old.remove(true, "l"))
		settled(journal.Validity)
		require.Equal(t, one(errs.ObjectNotFound), old.get("k"), "its grants would count for nothing")
		require.Equal(t, []bool{false}, old.exist("k"))
		// What a node sent before it attached elsewhere may arrive late.
		got, err := old.Attach(old.ctx, a.client, []model.LedgerState{late})
		require.NoError(t, err)
		require.True(t, got.Segments[0].Resume)
		_, err = old.Pull(old.ctx, a.client, 1, []model.LedgerAck{{Segment: late.Segment.ID, Epoch: late.Fence, Seq: late.Seq}})
		require.NoError(t, err)
		require.Equal(t, []bool{false}, old.exist("k"))
		require.Equal(t, one(errs.OK), r.get("l"))
	})
}

// TestReadersOfTheOldMasterAreLeftTheirMemory (L4).
func TestReadersOfTheOldMasterAreLeftTheirMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newKeeper(t, 1, 3)
		long := func(c *master.Config) { c.LeaseTTL = time.Minute }
		r := startAttached(t, long, a)
		r.put("read", "held", "idle")
		require.Equal(t, []errs.Code{0, 0}, r.get("read", "held"))
		require.Equal(t, one(errs.OK), r.remove(true, "held"))
		flushed()
		r.kill(t, a)
		r = startAttached(t, func(c *master.Config) { c.LeaseTTL = time.Second }, a)
		require.Equal(t, []string{"idle", "read"}, r.here())
		require.Equal(t, one(errs.NoAvailableHandle), r.begin("x"), "the readers of the old master may go on for a minute")
		settled(58 * time.Second)
		require.Equal(t, one(errs.NoAvailableHandle), r.begin("x"))
		settled(10 * time.Second)
		require.Equal(t, []errs.Code{0, 0, 0}, r.begin("x", "y", "z"))
	})
}

// TestTheLaterValueStays (L6): a node that was away has an old value of a key.
func TestTheLaterValueStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := newKeeper(t, 1, 4), newKeeper(t, 2, 4)
		r := startAttached(t, nil, a)
		r.put("k")
		flushed()
		r.kill(t, a)
		r = startAttached(t, nil, b)
		got, err := r.PutStart(r.ctx, model.Caller{Client: r.client}, items([]string{"k"}, 2*page), model.DefaultReplicateConfig(), nil)
		require.NoError(t, err)
		require.NoError(t, got[0].Err)
		require.Equal(t, one(errs.OK), r.end("k"))
		a.join(r)
		require.Equal(t, uint64(2*page), r.PeekReplicas([]string{"k"})[0].Value.Size)
		flushed()
		r.kill(t, b)
		r = startAttached(t, nil, a, b)
		require.Equal(t, uint64(2*page), r.PeekReplicas([]string{"k"})[0].Value.Size)
		r.kill(t, a, b)
		r = startAttached(t, nil, b, a)
		require.Equal(t, uint64(2*page), r.PeekReplicas([]string{"k"})[0].Value.Size)
	})
}

// TestADamagedReportIsRefused, and the node attaches again with an empty ledger.
func TestADamagedReportIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startAttached(t, nil)
		k := newKeeper(t, 1, 4)
		s := k.segs[0]
		got, err := r.Attach(r.ctx, k.client, []model.LedgerState{{Segment: s, Fence: 7, Seq: 9, Lease: time.Second}})
		require.NoError(t, err)
		require.False(t, got.Segments[0].Resume)
		require.Greater(t, got.Segments[0].Epoch, uint64(7))
		piece := model.LedgerReport{Segment: s.ID, Epoch: got.Segments[0].Epoch, Batch: []byte("nothing that a ledger wrote"), Last: true}
		require.Equal(t, errs.ChecksumMismatch, errs.CodeOf(r.Report(r.ctx, k.client, piece)))
		require.Equal(t, errs.InvalidParams, errs.CodeOf(r.Report(r.ctx, k.client, piece)), "it has to attach again")
		_, err = r.Pull(r.ctx, k.client, 0, []model.LedgerAck{{Segment: s.ID, Epoch: piece.Epoch}})
		require.Equal(t, errs.UnavailableInCurrentStatus, errs.CodeOf(err))
		_, err = r.Attach(r.ctx, k.client, []model.LedgerState{{Segment: s, Fence: 7, Lease: time.Minute, Wiped: true}})
		require.NoError(t, err)
		piece.Batch = nil
		require.NoError(t, r.Report(r.ctx, k.client, piece))
		require.NoError(t, r.Report(r.ctx, k.client, piece), "its answer may be lost")
		require.Equal(t, one(errs.NoAvailableHandle), r.begin("k"), "readers may rely on what was there")
	})
}

// TestANewClientTakesALedgerOver attaches the ledger of a client that fell silent under another
// client, as a store does whose memory outlived its process.
func TestANewClientTakesALedgerOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := newKeeper(t, 1, 8)
		r := startAttached(t, nil, node)
		r.put("a", "b")
		flushed()
		node.leave()
		next := &keeper{t: t, client: model.UUID{Hi: 6}, segs: node.segs, logs: node.logs}
		t.Cleanup(next.leave)
		require.Equal(t, errs.UnavailableInCurrentStatus, errs.CodeOf(next.attach(r)), "the old client may be alive")
		settled(segments.SilentAfter)
		next.join(r)
		require.Equal(t, []string{"a", "b"}, r.here())
		list, err := r.Segments(r.ctx)
		require.NoError(t, err)
		require.Len(t, list, 1)
		require.Equal(t, next.client, list[0].Client)
	})
}
