package master_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/master"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

func TestLifecycleOfAnObject(t *testing.T) {
	r := start(t, nil, 8)
	require.Equal(t, one(errs.ObjectNotFound), r.get("k"))
	require.Equal(t, []bool{false}, r.exist("k"))

	require.Equal(t, one(errs.OK), r.begin("k"))
	require.Equal(t, one(errs.ReplicaIsNotReady), r.get("k"), "being written")
	require.Equal(t, []bool{false}, r.exist("k"))
	require.Equal(t, one(errs.ObjectAlreadyExists), r.begin("k"))
	require.Equal(t, one(errs.ReplicaIsNotReady), r.remove(true, "k"), "also with force")

	require.Equal(t, one(errs.OK), r.end("k"))
	require.Equal(t, one(errs.OK), r.end("k"), "ending twice")
	require.Equal(t, []bool{true}, r.exist("k"))
	require.Equal(t, one(errs.ObjectHasLease), r.remove(false, "k"), "the lookup granted a lease")
	require.Equal(t, one(errs.OK), r.remove(true, "k"))
	require.Equal(t, one(errs.ObjectNotFound), r.remove(true, "k"))
	require.Equal(t, one(errs.ObjectNotFound), r.end("k"))
}

func TestAnswerOfARead(t *testing.T) {
	r := start(t, nil, 8)
	got, err := r.PutStart(r.ctx, model.Caller{Client: r.client}, items([]string{"k"}, 100), model.DefaultReplicateConfig(), nil)
	require.NoError(t, err)
	require.Len(t, got[0].Value, 1)
	w := got[0].Value[0]
	require.NotZero(t, w.ID)
	require.Equal(t, model.Replica{
		ID: w.ID, Status: model.ReplicaProcessing,
		Part: model.Part{SegmentID: r.segs[0].ID, Segment: "node-0:1", Endpoint: "node-0:1", Protocol: "tcp", Address: r.segs[0].Base, Size: 100},
	}, w)
	sum := model.Checksum{Kind: model.ChecksumCRC32C, Value: 0xdeadbeef}
	ended, err := r.PutEnd(r.ctx, model.Caller{Client: r.client}, []model.EndItem{{Key: "k", Checksum: sum}}, nil)
	require.NoError(t, err)
	require.NoError(t, ended[0])

	read, err := r.GetReplicas(r.ctx, model.Caller{}, []string{"k"}, nil)
	require.NoError(t, err)
	w.Status = model.ReplicaComplete
	require.Equal(t, model.Object{Size: 100, Checksum: sum, Replicas: []model.Replica{w}, LeaseTTL: 10 * time.Second}, read[0].Value)
	require.Zero(t, r.PeekReplicas([]string{"k"})[0].Value.LeaseTTL, "peeking grants no lease")
}

func TestWritersAreToldApart(t *testing.T) {
	r := start(t, nil, 8)
	other := model.UUID{Hi: 9, Lo: 9}
	r.begin("k")
	got, err := r.PutEnd(r.ctx, model.Caller{Client: other}, ends([]string{"k"}), nil)
	require.NoError(t, err)
	require.Equal(t, one(errs.IllegalClient), errCodes(got))
	got, err = r.PutRevoke(r.ctx, model.Caller{Client: other}, revokes([]string{"k"}))
	require.NoError(t, err)
	require.Equal(t, one(errs.IllegalClient), errCodes(got))
	got, err = r.PutRevoke(r.ctx, model.Caller{Client: r.client}, revokes([]string{"k", "none", ""}))
	require.NoError(t, err)
	require.Equal(t, []errs.Code{errs.OK, errs.ObjectNotFound, errs.ObjectNotFound}, errCodes(got))
	require.Empty(t, r.alloc.Live(), "revoking frees the memory")
	r.put("k")
	got, err = r.PutRevoke(r.ctx, model.Caller{Client: r.client}, revokes([]string{"k"}))
	require.NoError(t, err)
	require.Equal(t, one(errs.InvalidWrite), errCodes(got))
}

// A writer that sleeps through its own next put of a key must not hear that the first one
// is what can be read.
func TestALatePutIsToldSoAfterTheNextIsComplete(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, nil, 8)
		begin := func() uint64 {
			got, err := r.PutStart(r.ctx, model.Caller{Client: r.client}, items([]string{"k"}, page), model.DefaultReplicateConfig(), nil)
			require.NoError(t, err)
			require.NoError(t, got[0].Err)
			return got[0].Value[0].ID
		}
		end := func(put uint64) errs.Code {
			got, err := r.PutEnd(r.ctx, model.Caller{Client: r.client}, []model.EndItem{{Key: "k", Put: put}}, nil)
			require.NoError(t, err)
			return errs.CodeOf(got[0])
		}
		old := begin()
		r.keepAlive(31 * time.Second)
		next := begin()
		require.Equal(t, errs.OK, end(next))
		require.Equal(t, errs.InvalidWrite, end(old))
		require.Equal(t, errs.OK, end(next), "its answer may have been lost")
		require.Equal(t, errs.OK, end(0))
	})
}

func TestWhatPutStartRefuses(t *testing.T) {
	r := start(t, func(c *master.Config) { c.MaxBatch = 4 }, 8)
	for _, c := range []struct {
		name string
		item model.PutItem
		text string
	}{
		{"empty key", model.PutItem{Size: 1}, "empty"},
		{"huge key", model.PutItem{Key: strings.Repeat("x", 2<<20), Size: 1}, "bytes"},
		{"size 0", model.PutItem{Key: "k"}, "at least 1 byte"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := r.PutStart(r.ctx, model.Caller{Client: r.client}, []model.PutItem{c.item, {Key: "good", Size: 1}}, model.DefaultReplicateConfig(), nil)
			require.NoError(t, err)
			require.Equal(t, errs.InvalidParams, errs.CodeOf(got[0].Err))
			require.ErrorContains(t, got[0].Err, c.text)
			require.Less(t, len(got[0].Err.Error()), 400)
			require.NoError(t, got[1].Err, "the other key is not harmed")
			require.NoError(t, errOf(r.PutRevoke(r.ctx, model.Caller{Client: r.client}, revokes([]string{"good"}))))
		})
	}
	for name, call := range map[string]func() error{
		"no copies": func() error {
			return second(r.PutStart(r.ctx, model.Caller{Client: r.client}, items([]string{"k"}, 1), model.ReplicateConfig{}, nil))
		},
		"no client": func() error {
			return second(r.PutStart(r.ctx, model.Caller{Client: model.ClientID{}}, items([]string{"k"}, 1), model.DefaultReplicateConfig(), nil))
		},
		"too many keys": func() error { return second(r.Exist(r.ctx, model.Caller{}, names("k", 0, 5))) },
		"bad regex":     func() error { return second(r.RemoveByRegex(r.ctx, model.Caller{}, "(", true)) },
		"long regex":    func() error { return second(r.RemoveByRegex(r.ctx, model.Caller{}, strings.Repeat("a", 5000), true)) },
		"limit 0":       func() error { return second(r.ListKeys(r.ctx, model.Caller{}, "", "", 0)) },
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, errs.InvalidParams, errs.CodeOf(call())) })
	}
	require.Empty(t, r.alloc.Live())
}

func TestNoSegmentMeansNoSpace(t *testing.T) {
	r := start(t, nil)
	got, err := r.PutStart(r.ctx, model.Caller{Client: r.client}, items([]string{"k"}, 1), model.DefaultReplicateConfig(), nil)
	require.NoError(t, err)
	require.Equal(t, errs.NoAvailableHandle, errs.CodeOf(got[0].Err))
	require.ErrorContains(t, got[0].Err, "no segment is mounted")
}

func TestSameKeyTwiceInOneBatch(t *testing.T) {
	r := start(t, nil, 8)
	require.Equal(t, []errs.Code{errs.OK, errs.ObjectAlreadyExists}, r.begin("k", "k"))
	require.Len(t, r.alloc.Live(), 1)
}

func TestRemovingMany(t *testing.T) {
	r := start(t, nil, 64)
	r.put(names("a", 0, 10)...)
	r.put(names("b", 0, 10)...)
	r.begin("unfinished")
	r.get("a00003")
	n, err := r.RemoveByRegex(r.ctx, model.Caller{}, "^a", false)
	require.NoError(t, err)
	require.Equal(t, 9, n, "the leased one stays")
	n, err = r.RemoveAll(r.ctx, model.Caller{}, false)
	require.NoError(t, err)
	require.Equal(t, 10, n)
	require.Equal(t, []string{"a00003"}, r.here())
	n, err = r.RemoveAll(r.ctx, model.Caller{}, true)
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.Equal(t, one(errs.OK), r.end("unfinished"))
}

func TestListing(t *testing.T) {
	r := start(t, nil, 64)
	r.put(names("a", 0, 20)...)
	r.put(names("b", 0, 5)...)
	r.begin("unfinished")
	got, err := r.ListKeys(r.ctx, model.Caller{}, "^a", "a00004", 7)
	require.NoError(t, err)
	require.Equal(t, names("a", 5, 12), got)
	seen := 0
	r.WalkKeys(func(model.Key) bool { seen++; return true })
	require.Equal(t, 25, seen)
	r.WalkKeys(func(model.Key) bool { seen++; return false })
	require.Equal(t, 26, seen)
}

// A forced removal must not let the bytes be overwritten while a reader counts on them.
func TestForcedRemovalKeepsTheBytesOfAReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, nil, 1)
		r.put("k")
		r.get("k")
		require.Equal(t, one(errs.OK), r.remove(true, "k"))
		require.Equal(t, one(errs.NoAvailableHandle), r.begin("other"))
		r.keepAlive(11 * time.Second)
		require.Equal(t, one(errs.OK), r.begin("other"))
	})
}

func TestUnfinishedPuts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, nil, 2)
		r.begin("k")
		r.keepAlive(29 * time.Second)
		require.Equal(t, one(errs.ObjectAlreadyExists), r.begin("k"), "the writer still has time")
		r.keepAlive(2 * time.Second)
		require.Equal(t, one(errs.OK), r.begin("k"), "pre-empted")
		require.Len(t, r.alloc.Live(), 2, "the first writer may still be writing")
		require.Equal(t, float64(page), r.value("master_put_start_discarded_staging_size"))
		require.Equal(t, one(errs.NoAvailableHandle), r.begin("other"))
		require.Equal(t, one(errs.OK), r.end("k"))
		r.keepAlive(568 * time.Second)
		require.Len(t, r.alloc.Live(), 2)
		r.keepAlive(2 * time.Second)
		require.Len(t, r.alloc.Live(), 1, "600 s after the first put start")
		require.Equal(t, 1.0, r.value("master_put_start_discard_cnt"))
		require.Equal(t, 1.0, r.value("master_put_start_release_cnt"))

		r.begin("late")
		r.keepAlive(601 * time.Second)
		require.Equal(t, one(errs.ObjectNotFound), r.end("late"), "given up")
		require.Len(t, r.alloc.Live(), 1)
	})
}

// A writer that was too slow must neither end nor revoke the put that took its place: its
// bytes are elsewhere, and the other put's memory is still being written.
func TestOverduePutDoesNotTouchItsSuccessor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, nil, 4)
		first, err := r.PutStart(r.ctx, model.Caller{Client: r.client}, items([]string{"k"}, page), model.DefaultReplicateConfig(), nil)
		require.NoError(t, err)
		r.keepAlive(31 * time.Second)
		second, err := r.PutStart(r.ctx, model.Caller{Client: r.client}, items([]string{"k"}, page), model.DefaultReplicateConfig(), nil)
		require.NoError(t, err)
		require.NoError(t, second[0].Err)
		old, young := first[0].Value[0].ID, second[0].Value[0].ID
		sum := model.Checksum{Kind: model.ChecksumCRC32C, Value: 2}

		late, err := r.PutEnd(r.ctx, model.Caller{Client: r.client}, []model.EndItem{{Key: "k", Put: old}}, nil)
		require.NoError(t, err)
		require.Equal(t, one(errs.InvalidWrite), errCodes(late))
		require.ErrorContains(t, late[0], "another one of this client took its place")
		late, err = r.PutRevoke(r.ctx, model.Caller{Client: r.client}, []model.RevokeItem{{Key: "k", Put: old}})
		require.NoError(t, err)
		require.Equal(t, one(errs.InvalidWrite), errCodes(late))
		require.Len(t, r.alloc.Live(), 2)
		require.Equal(t, one(errs.ReplicaIsNotReady), r.get("k"))

		require.NoError(t, errOf(r.PutEnd(r.ctx, model.Caller{Client: r.client}, []model.EndItem{{Key: "k", Put: young, Checksum: sum}}, nil)))
		got, err := r.GetReplicas(r.ctx, model.Caller{}, []string{"k"}, nil)
		require.NoError(t, err)
		require.Equal(t, sum, got[0].Value.Checksum)
		require.Equal(t, young, got[0].Value.Replicas[0].ID)
	})
}

// keepAlive lets time pass while the client goes on pinging.
func (r *rig) keepAlive(d time.Duration) {
	r.t.Helper()
	for ; d > 0; d -= time.Second {
		time.Sleep(min(d, time.Second))
		got, err := r.Ping(r.ctx, r.client, model.PingReport{})
		require.NoError(r.t, err)
		require.Equal(r.t, model.ClientOK, got.Status)
	}
	synctest.Wait()
}

func second[T any](_ T, err error) error { return err }

func errOf(each []error, err error) error {
	for _, e := range each {
		if e != nil {
			return e
		}
	}
	return err
}

func TestStoppedMasterRefuses(t *testing.T) {
	r := start(t, nil, 1)
	version, err := r.Ready(r.ctx)
	require.NoError(t, err)
	require.Equal(t, "2.0.0", version)
	require.Error(t, r.Start(r.ctx), "started twice")
	require.NoError(t, r.Stop(r.ctx))
	require.NoError(t, r.Stop(r.ctx), "stopped twice")
	require.Equal(t, errs.UnavailableInCurrentStatus, errs.CodeOf(second(r.Ready(r.ctx))))
	require.Equal(t, errs.UnavailableInCurrentStatus, errs.CodeOf(second(r.Exist(r.ctx, model.Caller{}, []string{"k"}))))
}
