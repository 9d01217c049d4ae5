package master_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mooncake-go/mooncake/core/ledger"
	"github.com/mooncake-go/mooncake/core/master"
	"github.com/mooncake-go/mooncake/core/master/internal/mastertest"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// told is how far a follower knows a ledger.
type told struct {
	by  *rig
	at  ledger.Epoch
	seq ledger.Seq
}

// tail reports the batches after one.
func (k *keeper) tail(r *rig, id model.SegmentID, epoch uint64, after ledger.Seq) (ledger.Seq, error) {
	for {
		b, seq, err := k.logs[id].Since(after, 300)
		if err != nil {
			return after, err
		}
		last := seq == k.logs[id].Seq()
		if err := r.Report(r.ctx, k.client, model.LedgerReport{Segment: id, Epoch: epoch, Batch: b, Tail: true, Last: last, Seq: uint64(seq)}); err != nil || last {
			return seq, err
		}
		after = seq
	}
}

// tell brings a follower up to date, as a node does.
func (k *keeper) tell(r *rig) {
	k.t.Helper()
	var states []model.LedgerState
	known := true
	for _, s := range k.segs {
		l := k.logs[s.ID]
		states = append(states, model.LedgerState{Segment: s, Fence: uint64(l.Fenced()), Seq: uint64(l.Seq()), Lease: l.Lease(), Grants: k.books.give(s.ID, false)})
		have := k.told[s.ID]
		known = known && have != nil && have.by == r && have.at == l.Fenced()
	}
	if known {
		for _, s := range k.segs {
			seq, err := k.tail(r, s.ID, uint64(k.told[s.ID].at), k.told[s.ID].seq)
			if errors.Is(err, ledger.ErrGap) {
				seq, err = k.report(r, s.ID, model.LedgerGrant{Epoch: uint64(k.told[s.ID].at)})
			}
			require.NoError(k.t, err)
			k.told[s.ID].seq = seq
		}
		return
	}
	got, err := r.Attach(r.ctx, k.client, states)
	require.NoError(k.t, err)
	k.books.hear(got, false)
	for i, s := range k.segs {
		require.Equal(k.t, states[i].Fence, got.Segments[i].Epoch, "a follower fences nothing")
		seq, err := k.report(r, s.ID, got.Segments[i])
		require.NoError(k.t, err)
		k.told[s.ID] = &told{by: r, at: k.logs[s.ID].Fenced(), seq: seq}
	}
}

// copied is a node with the same ledgers, as they are now.
func (k *keeper) copied() *keeper {
	out := &keeper{t: k.t, client: k.client, segs: k.segs, logs: map[model.SegmentID]*ledger.Log{}, pages: map[model.SegmentID]*heapPages{}, told: map[model.SegmentID]*told{}}
	for id, p := range k.pages {
		log, err := ledger.Open(&heapPages{b: bytes.Clone(p.b)})
		require.NoError(k.t, err)
		out.logs[id] = log
	}
	k.t.Cleanup(out.leave)
	return out
}

// startStandby runs a master that does not lead.
func startStandby(t testing.TB) *rig {
	return startFrom(t, master.Deps{Alloc: mastertest.NewAlloc(), Evict: mastertest.NewLRU(), Standby: true}, func(c *master.Config) {
		c.StripeSize, c.PutReleaseTimeout = 1<<20, 40*time.Second
	})
}

func (r *rig) lead() {
	l := &term{epoch: uint64(time.Now().UnixMilli())}
	l.lasts(24 * time.Hour)
	r.Lead(l, 1)
}

// takeOver has a master lead that has followed another one.
func (r *rig) takeOver(nodes ...*keeper) {
	r.t.Helper()
	r.lead()
	recovered := make(chan struct{})
	go func() {
		defer close(recovered)
		r.Recover(r.ctx)
	}()
	for _, k := range nodes {
		k.join(r)
	}
	<-recovered
	synctest.Wait()
}

// TestAFollowerTakesOver: a master that was told what the ledgers have knows the same as one that reads all of them, and
// nodes report to it what it was not told only.
func TestAFollowerTakesOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leader, follower := startStandby(t), startStandby(t)
		leader.lead()
		k := newKeeper(t, 1, 64)
		k.join(leader)
		follower.Learn()
		k.tell(follower)
		leader.put("a", "b", "c")
		leader.begin("open")
		flushed()
		k.tell(follower)
		require.Equal(t, []errs.Code{errs.OK}, leader.remove(true, "b"))
		leader.put("d")
		flushed()
		require.Equal(t, errs.UnavailableInCurrentStatus, errs.CodeOf(func() error { _, err := follower.Exist(t.Context(), model.Caller{}, []model.Key{"a"}); return err }()))
		k.leave()

		k.whole = 0
		follower.takeOver(k)
		require.Zero(t, k.whole, "what was told is enough")
		require.Equal(t, []string{"a", "c", "d"}, follower.here())
		require.Equal(t, []errs.Code{errs.OK}, follower.end("open"))
		require.NoError(t, follower.Balance(t.Context()))
		info, err := follower.Segments(t.Context())
		require.NoError(t, err)
		require.Len(t, info, 1)
		require.EqualValues(t, 4, info[0].Adopted)
		require.Equal(t, []errs.Code{errs.ObjectHasLease}, follower.remove(false, "a"), "readers of the leader before may be reading")
		require.Equal(t, []errs.Code{errs.OK, errs.OK, errs.OK, errs.OK}, follower.remove(true, "a", "c", "d", "open"))
		settled(time.Minute)
		flushed()
		require.NoError(t, follower.Balance(t.Context()))
		for _, l := range k.logs {
			require.Zero(t, l.Len(), "the ledger follows the new leader")
		}
	})
}

// TestANodeAttachesTwice: one that attaches again before the new leader serves goes on with its ledger.
func TestANodeAttachesTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leader, follower := startStandby(t), startStandby(t)
		leader.lead()
		k, other := newKeeper(t, 1, 64), newKeeper(t, 2, 64)
		k.join(leader)
		leader.put("a", "b")
		other.join(leader)
		flushed()
		follower.Learn()
		k.tell(follower)
		other.tell(follower)
		k.leave()
		other.leave()
		k.whole = 0
		follower.lead()
		require.NoError(t, k.attach(follower))
		require.NoError(t, k.attach(follower))
		go func() {
			time.Sleep(100 * time.Millisecond)
			assert.NoError(t, other.attach(follower))
		}()
		follower.Recover(t.Context())
		k.join(follower)
		require.Zero(t, k.whole)
		require.Equal(t, []string{"a", "b"}, follower.here())
		require.NoError(t, follower.Balance(t.Context()))
	})
}

// TestAFollowerDoesNotWaitForever: a node that does not attach costs half a second, and its segment is read anew when it does.
func TestAFollowerDoesNotWaitForever(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leader, follower := startStandby(t), startStandby(t)
		leader.lead()
		here, gone := newKeeper(t, 1, 64), newKeeper(t, 2, 64)
		here.join(leader)
		gone.join(leader)
		leader.put("a", "b", "c", "d", "e", "f")
		flushed()
		follower.Learn()
		here.tell(follower)
		gone.tell(follower)
		here.leave()
		gone.leave()
		began := time.Now()
		follower.takeOver(here)
		require.LessOrEqual(t, time.Since(began), time.Second, "in fake time")
		some := follower.here()
		require.Less(t, len(some), 6)
		require.NoError(t, follower.Balance(t.Context()))
		gone.join(follower)
		require.Equal(t, []string{"a", "b", "c", "d", "e", "f"}, follower.here())
		require.NoError(t, follower.Balance(t.Context()))
	})
}

// TestAnotherLedgerIsReadAnew: a ledger that was emptied and filled again since a follower was told is another one, however long
// it is.
func TestAnotherLedgerIsReadAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leader, follower := startStandby(t), startStandby(t)
		leader.lead()
		k := newKeeper(t, 1, 64)
		k.join(leader)
		leader.put("a", "b")
		flushed()
		follower.Learn()
		k.tell(follower)
		k.leave()
		id := k.segs[0].ID
		fresh, err := ledger.Create(&heapPages{}, k.logs[id].Identity())
		require.NoError(t, err)
		epoch := k.logs[id].Fenced() + 1
		_, err = fresh.Fence(epoch, 0)
		require.NoError(t, err)
		for put := ledger.Put(1); fresh.Seq() < k.logs[id].Seq()+3; put++ {
			var b ledger.Batch
			b.Begin(put, &ledger.Object{Name: fmt.Sprint("default/", put), Size: page, Parts: 1, Extents: []ledger.Extent{{Offset: uint64(put) * page, Length: page}}})
			_, err := fresh.Append(b.Bytes(epoch, fresh.Seq()+1))
			require.NoError(t, err)
		}
		k.logs[id] = fresh
		follower.takeOver(k)
		require.Empty(t, follower.here())
		require.NoError(t, follower.Balance(t.Context()))
	})
}

// TestTheWriterOfAReplacedPutMayGoOn: memory of an unfinished put that a later value has replaced is held as long as its writer
// may go on, by a master that reads the ledgers and by one that was told them.
func TestTheWriterOfAReplacedPutMayGoOn(t *testing.T) {
	for _, warm := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			m, k := startStandby(t), newKeeper(t, 1, 8, 8)
			write := func(i int, put ledger.Put, end bool) {
				id := k.segs[i].ID
				_, err := k.logs[id].Fence(1, 0)
				require.NoError(t, err)
				var b ledger.Batch
				b.Begin(put, &ledger.Object{Name: "k", Size: page, Parts: 1, Extents: []ledger.Extent{{Length: page}}})
				if end {
					b.Commit(put, ledger.Ending{})
				}
				_, err = k.logs[id].Append(b.Bytes(1, k.logs[id].Seq()+1))
				require.NoError(t, err)
			}
			write(0, 5, false)
			write(1, 9, true)
			if warm {
				m.Learn()
				k.tell(m)
				m.takeOver(k)
			} else {
				m.lead()
				k.join(m)
			}
			settled(30 * time.Second) // Readers have ended, the writer may go on for put_start_release_timeout_sec.
			require.Equal(t, [3]uint64{page, 0, page}, usage(m)[k.segs[0].ID])
			settled(30 * time.Second)
			require.Equal(t, [3]uint64{}, usage(m)[k.segs[0].ID])
			require.Equal(t, []string{"k"}, m.here())
		})
	}
}

// TestReadersOfAnEndThatNoLedgerKnows (L4): a master ended a put, let clients read it, and died before the ledger learnt of
// the end. To the next one the put is unfinished. Its memory stays as it is for those readers when the writer gives it up,
// says that its puts are over, or replaces what it ended again.
func TestReadersOfAnEndThatNoLedgerKnows(t *testing.T) {
	revoke := func(r *rig) {
		got, err := r.PutRevoke(r.ctx, model.Caller{Client: r.client}, revokes([]string{"k"}))
		require.NoError(r.t, err)
		require.Equal(r.t, one(errs.OK), errCodes(got))
	}
	over := func(r *rig) {
		require.NoError(r.t, r.RemountSegments(r.ctx, r.client, nil))
		reply, err := r.Ping(r.ctx, r.client, model.PingReport{})
		require.NoError(r.t, err)
		_, err = r.Ping(r.ctx, r.client, model.PingReport{PutsSince: reply.Epoch})
		require.NoError(r.t, err)
	}
	replace := func(r *rig) {
		require.Equal(r.t, one(errs.OK), r.end("k"))
		require.Equal(r.t, one(errs.OK), r.remove(true, "k"))
	}
	for name, giveUp := range map[string]func(*rig){"revoked": revoke, "over": over, "replaced": replace} {
		for _, warm := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", warm ", warm), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					k := newKeeper(t, 1, 1)
					old := startAttached(t, func(c *master.Config) { c.LeaseTTL = time.Minute }, k)
					require.Equal(t, one(errs.OK), old.begin("k"))
					flushed()
					k.mute.Store(true)
					require.Equal(t, one(errs.OK), old.end("k"))
					require.Equal(t, one(errs.OK), old.get("k"))
					old.kill(t, k)
					k.mute.Store(false)
					r := startStandby(t)
					if warm {
						r.Learn()
						k.tell(r)
						r.takeOver(k)
					} else {
						r.lead()
						k.join(r)
					}
					giveUp(r)
					settled(2 * time.Second)
					require.Equal(t, one(errs.ObjectNotFound), r.get("k"))
					require.Equal(t, one(errs.NoAvailableHandle), r.begin("x"))
					settled(57 * time.Second)
					require.Equal(t, one(errs.NoAvailableHandle), r.begin("x"), "readers of the old master may go on for a minute")
					settled(10 * time.Second)
					require.Equal(t, one(errs.OK), r.begin("x"))
				})
			})
		}
	}
}

// deed is one step of a history.
type deed struct {
	Kind   string
	Key    string
	Copies uint32
	Copy   model.CopyKind
	Pause  time.Duration
	Node   int
	Force  bool
}

var deeds = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) deed {
	return deed{
		Kind: rapid.SampledFrom([]string{"begin", "begin", "upsert", "upsert", "end", "end", "end", "revoke", "read", "remove", "copy", "copy", "copy end", "copy end", "copy revoke", "wait", "tell"}).Draw(t, "kind"),
		Key:  fmt.Sprint("k", rapid.IntRange(0, 9).Draw(t, "key")), Copies: rapid.Uint32Range(1, 2).Draw(t, "copies"),
		Copy:  rapid.SampledFrom([]model.CopyKind{model.CopyObject, model.MoveObject}).Draw(t, "copy"),
		Pause: time.Duration(rapid.IntRange(1, 4000).Draw(t, "ms")) * time.Millisecond, Node: rapid.IntRange(0, 1).Draw(t, "node"), Force: rapid.Bool().Draw(t, "force"),
	}
}), 1, 80)

// do makes a step at a leader. Whatever it answers, its ledgers have.
func (m *deed) do(t require.TestingT, r *rig, follower *rig, nodes []*keeper) {
	c := model.Caller{Client: r.client}
	var err error
	switch m.Kind {
	case "begin", "upsert":
		cfg := model.DefaultReplicateConfig()
		cfg.ReplicaNum, cfg.Upsert = m.Copies, m.Kind == "upsert"
		_, err = r.PutStart(r.ctx, c, items([]string{m.Key}, page), cfg, nil)
	case "end":
		_, err = r.PutEnd(r.ctx, c, ends([]string{m.Key}), nil)
	case "revoke":
		_, err = r.PutRevoke(r.ctx, c, revokes([]string{m.Key}))
	case "read":
		r.get(m.Key)
	case "remove":
		r.remove(m.Force, m.Key)
	case "copy":
		_, _ = r.CopyStart(r.ctx, c, m.Copy, m.Key, nodes[m.Node].segs[0].Name, []string{nodes[1-m.Node].segs[0].Name})
	case "copy end":
		_ = r.CopyEnd(r.ctx, c, m.Copy, m.Key)
	case "copy revoke":
		_ = r.CopyRevoke(r.ctx, c, m.Copy, m.Key)
	case "wait":
		settled(m.Pause)
	case "tell":
		nodes[m.Node].tell(follower)
	}
	require.NoError(t, err)
}

// TestAFollowerKnowsWhatLedgersSay: whatever the leader did, and whenever nodes told the follower, it knows after it has taken
// over what a master knows that reads all ledgers, and the memory of everything becomes free again.
func TestAFollowerKnowsWhatLedgersSay(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		steps := deeds.Draw(rt, "steps")
		synctest.Test(t, func(t *testing.T) {
			leader, follower, cold := startStandby(t), startStandby(t), startStandby(t)
			leader.lead()
			nodes := []*keeper{newKeeper(t, 1, 12, 6), newKeeper(t, 2, 12)}
			for _, k := range nodes {
				k.join(leader)
			}
			follower.Learn()
			for i := range steps {
				steps[i].do(t, leader, follower, nodes)
			}
			var copies []*keeper
			for _, k := range nodes {
				k.leave()
				copies = append(copies, k.copied())
			}
			follower.takeOver(nodes...)
			cold.lead()
			for _, k := range copies {
				k.join(cold)
			}
			require.Equal(t, cold.here(), follower.here())
			require.NoError(t, follower.Balance(t.Context()))
			require.Equal(t, usage(cold), usage(follower))

			settled(2 * time.Minute) // Longer than any put may take.
			_, err := follower.RemoveAll(t.Context(), model.Caller{Tenant: model.AllTenants}, true)
			require.NoError(t, err)
			settled(time.Minute)
			flushed()
			require.NoError(t, follower.Balance(t.Context()))
			for _, k := range nodes {
				for _, l := range k.logs {
					require.Zero(t, l.Len(), "nothing is left")
				}
			}
		})
		if t.Failed() {
			rt.FailNow()
		}
	})
}

// usage is what the memory of each segment is used for.
func usage(r *rig) map[model.SegmentID][3]uint64 {
	out := map[model.SegmentID][3]uint64{}
	info, err := r.Segments(context.Background())
	require.NoError(r.t, err)
	for _, s := range info {
		out[s.ID] = [3]uint64{s.Used, s.Writing, s.Held}
	}
	return out
}
