package master_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/master"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// upstream is a caller with a client ID of its own that is a client of upstream.
func upstream(n uint64) model.Caller {
	return model.Caller{Client: model.UUID{Hi: 0xe, Lo: n}, Upstream: true}
}

// startMixed is start with a last segment that upstream's clients do not reach.
func startMixed(t testing.TB, configure func(*master.Config), pages ...int) *rig {
	t.Helper()
	r := start(t, configure, pages[:len(pages)-1]...)
	i := len(pages) - 1
	seg := segment(i, pages[i]*page)
	seg.Protocol = "quic"
	require.NoError(t, r.MountSegment(r.ctx, r.client, seg))
	r.segs = append(r.segs, seg)
	return r
}

// putBy begins and ends a put and returns its copies.
func (r *rig) putBy(c model.Caller, cfg model.ReplicateConfig, key string, pages int) ([]model.Replica, error) {
	r.t.Helper()
	got, err := r.PutStart(r.ctx, c, items([]string{key}, pages*page), cfg, nil)
	require.NoError(r.t, err)
	if got[0].Err != nil {
		return nil, got[0].Err
	}
	ended, err := r.PutEnd(r.ctx, c, []model.EndItem{{Key: key}}, nil)
	require.NoError(r.t, err)
	require.Equal(r.t, one(errs.OK), errCodes(ended))
	return got[0].Value, nil
}

func (r *rig) getBy(c model.Caller, key string) ([]model.Replica, errs.Code) {
	r.t.Helper()
	got, err := r.GetReplicas(r.ctx, c, []string{key}, nil)
	require.NoError(r.t, err)
	return got[0].Value.Replicas, errs.CodeOf(got[0].Err)
}

func (r *rig) existBy(c model.Caller, key string) bool {
	r.t.Helper()
	got, err := r.Exist(r.ctx, c, []string{key})
	require.NoError(r.t, err)
	return got[0].Value
}

// A client of upstream is given whole copies in memory that it reaches, even where that takes an eviction that stripes would
// save, and a put that can never be placed so evicts nothing.
func TestUpstreamGetsWholeCopies(t *testing.T) {
	r := startMixed(t, smallStripes, 3*mib, 3*mib, 8*mib)
	for range 4 { // whichever segment the strategy begins with
		got, err := r.putBy(upstream(1), model.DefaultReplicateConfig(), "whole", 3*mib)
		require.NoError(t, err)
		require.True(t, got[0].Plain())
		require.Equal(t, uint64(3*mib*page), got[0].Size)
		require.Equal(t, one(errs.OK), r.remove(true, "whole"))
	}
	_, err := r.putBy(upstream(1), model.DefaultReplicateConfig(), "evicted", 3*mib)
	require.NoError(t, err)
	_, err = r.putBy(upstream(1), model.DefaultReplicateConfig(), "too large", 4*mib)
	require.Equal(t, errs.NoAvailableHandle, errs.CodeOf(err))
	require.ErrorContains(t, err, "in one piece")
	require.True(t, r.existBy(upstream(1), "evicted"))
	require.Equal(t, one(errs.OK), r.remove(true, "evicted"))

	two := model.DefaultReplicateConfig()
	two.ReplicaNum = 3
	got, err := r.putBy(upstream(1), two, "copies", 1)
	require.NoError(t, err)
	require.Len(t, got, 2, "as many as there are names that it reaches")
	require.NotEqual(t, got[0].Segment, got[1].Segment)
	two.PreferredSegments, two.ReplicaNum = []string{r.segs[2].Name}, 1
	got, err = r.putBy(upstream(1), two, "preferred", 1)
	require.NoError(t, err)
	require.NotEqual(t, r.segs[2].Name, got[0].Segment)

	ours, err := r.write(model.DefaultReplicateConfig(), "ours", 6*mib)
	require.NoError(t, err)
	require.NotEmpty(t, ours[0].More, "the others go on to be striped")
}

func TestUpstreamWithoutASegmentThatItReaches(t *testing.T) {
	r := startMixed(t, nil, 4)
	r.put("stays")
	_, err := r.putBy(upstream(1), model.DefaultReplicateConfig(), "k", 4)
	require.Equal(t, errs.NoAvailableHandle, errs.CodeOf(err))
	require.ErrorContains(t, err, "no mounted segment is one")
	require.Equal(t, one(errs.OK), r.get("stays"))
}

// What upstream's clients cannot read is not there for them, neither for lookups nor for reads.
func TestUpstreamReadsPlainCopies(t *testing.T) {
	r := startMixed(t, smallStripes, 2*mib, 2*mib, 8*mib)
	striped, err := r.write(model.DefaultReplicateConfig(), "striped", 3*mib)
	require.NoError(t, err)
	require.NotEmpty(t, striped[0].More)
	cfg := model.DefaultReplicateConfig()
	cfg.PreferredSegments = []string{r.segs[2].Name}
	_, err = r.write(cfg, "elsewhere", 1)
	require.NoError(t, err)
	for _, key := range []string{"striped", "elsewhere"} {
		_, code := r.getBy(upstream(1), key)
		require.Equal(t, errs.ReplicaIsNotReady, code, key)
		require.False(t, r.existBy(upstream(1), key), key)
		require.Equal(t, one(errs.OK), r.get(key))
		require.Equal(t, []bool{true}, r.exist(key))
	}
	_, code := r.getBy(upstream(1), "none")
	require.Equal(t, errs.ObjectNotFound, code)

	cfg.ReplicaNum = 3
	_, err = r.write(cfg, "both", 1)
	require.NoError(t, err)
	got, code := r.getBy(upstream(1), "both")
	require.Equal(t, errs.OK, code)
	require.Len(t, got, 2)
	for _, c := range got {
		require.True(t, c.Plain())
	}
	require.True(t, r.existBy(upstream(1), "both"))
	keys, byRegex, err := r.GetReplicasByRegex(r.ctx, upstream(1), "both|striped", "", 10)
	require.NoError(t, err)
	require.Equal(t, []string{"both", "striped"}, keys)
	require.Equal(t, []errs.Code{errs.OK, errs.ReplicaIsNotReady}, codes(byRegex))
}

// An upsert on the memory that an object has needs copies that the writer can write.
func TestUpstreamUpserts(t *testing.T) {
	r := startMixed(t, smallStripes, 4*mib, 4*mib, 4*mib)
	up := model.DefaultReplicateConfig()
	up.Upsert = true
	prefer := model.DefaultReplicateConfig()
	prefer.PreferredSegments = []string{r.segs[2].Name}
	_, err := r.write(model.DefaultReplicateConfig(), "striped", 2*mib)
	require.NoError(t, err)
	_, err = r.write(prefer, "elsewhere", 1)
	require.NoError(t, err)
	_, err = r.write(model.DefaultReplicateConfig(), "plain", 1)
	require.NoError(t, err)
	for key, pages := range map[string]int{"striped": 2 * mib, "elsewhere": 1, "plain": 1} {
		got, err := r.putBy(upstream(1), up, key, pages)
		require.NoError(t, err, key)
		require.True(t, got[0].Plain(), key)
		_, code := r.getBy(upstream(1), key)
		require.Equal(t, errs.OK, code, key)
	}
	require.NoError(t, r.Balance(r.ctx))
}

// A client of upstream reads the first copy only, so that of a node that answers comes first.
func TestUpstreamReadsFromNodesThatAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, nil, 8, 8)
		other := segment(2, 8*page)
		silent := model.UUID{Hi: 3}
		require.NoError(t, r.MountSegment(r.ctx, silent, other))
		cfg := model.DefaultReplicateConfig()
		cfg.ReplicaNum, cfg.PreferredSegments = 3, []string{other.Name}
		_, err := r.write(cfg, "k", 1)
		require.NoError(t, err)
		for range 4 {
			time.Sleep(time.Second)
			_, err := r.Ping(r.ctx, r.client, model.PingReport{})
			require.NoError(t, err)
		}
		all, code := r.getBy(model.Caller{}, "k")
		require.Equal(t, errs.OK, code)
		require.Equal(t, other.Name, all[0].Segment, "the order without the rule")
		got, code := r.getBy(upstream(1), "k")
		require.Equal(t, errs.OK, code)
		require.Len(t, got, 3)
		require.Equal(t, other.Name, got[2].Segment)
	})
}

// Upstream's clients do not say that they have stopped writing, so the memory of what they give up is held.
func TestUpstreamCopiesThatAreGivenUpAreHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, nil, 4, 4)
		cfg := model.DefaultReplicateConfig()
		cfg.PreferredSegments = []string{r.segs[0].Name}
		_, err := r.putBy(upstream(1), cfg, "k", 1)
		require.NoError(t, err)
		plan, err := r.CopyStart(r.ctx, upstream(2), model.CopyObject, "k", r.segs[0].Name, []string{r.segs[1].Name})
		require.NoError(t, err)
		require.Len(t, plan.Targets, 1)
		require.NoError(t, r.CopyRevoke(r.ctx, upstream(2), model.CopyObject, "k"))
		require.Len(t, r.alloc.Live(), 2, "the target of the copy is held")
		r.keepAlive(590 * time.Second)
		require.Len(t, r.alloc.Live(), 2)
		r.keepAlive(20 * time.Second)
		require.Len(t, r.alloc.Live(), 1)

		_, err = r.CopyStart(r.ctx, model.Caller{Client: r.client}, model.CopyObject, "k", r.segs[0].Name, []string{r.segs[1].Name})
		require.NoError(t, err)
		require.NoError(t, r.CopyRevoke(r.ctx, model.Caller{Client: r.client}, model.CopyObject, "k"))
		require.Len(t, r.alloc.Live(), 1, "our own nodes revoke what they have stopped writing")
	})
}

func TestUpstreamCopiesPlainCopiesToWhereItReaches(t *testing.T) {
	r := startMixed(t, smallStripes, 2*mib, 2*mib, 4*mib)
	_, err := r.write(model.DefaultReplicateConfig(), "striped", 2*mib)
	require.NoError(t, err)
	cfg := model.DefaultReplicateConfig()
	cfg.PreferredSegments = []string{r.segs[0].Name}
	_, err = r.write(cfg, "k", 1)
	require.NoError(t, err)
	_, err = r.CopyStart(r.ctx, upstream(1), model.CopyObject, "striped", "", []string{r.segs[1].Name})
	require.Equal(t, errs.ReplicaIsNotReady, errs.CodeOf(err))
	_, err = r.CopyStart(r.ctx, upstream(1), model.CopyObject, "k", r.segs[0].Name, []string{r.segs[2].Name})
	require.Equal(t, errs.UnavailableInCurrentStatus, errs.CodeOf(err))
	_, err = r.CopyStart(r.ctx, upstream(1), model.CopyObject, "k", r.segs[0].Name, []string{r.segs[1].Name})
	require.NoError(t, err)
}

// Objects that no reader can verify are counted.
func TestObjectsWithoutAChecksumAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, nil, 4)
		for _, sum := range []model.Checksum{{}, {Kind: model.ChecksumCRC32C, Value: 1}} {
			r.begin("k")
			time.Sleep(time.Millisecond)
			for range 2 { // the second is a repetition
				got, err := r.PutEnd(r.ctx, model.Caller{Client: r.client}, []model.EndItem{{Key: "k", Checksum: sum}}, nil)
				require.NoError(t, err)
				require.Equal(t, one(errs.OK), errCodes(got))
			}
			require.Equal(t, 1.0, r.value("master_put_end_without_checksum_total"))
			require.Equal(t, one(errs.OK), r.remove(true, "k"))
		}
	})
}

// An object of a client of upstream is read only once the node has confirmed that its bytes have arrived, and its put ends then.
// If the node does not confirm within a second, the end fails and the object is removed.
func TestUpstreamObjectsAreReadWhenTheirBytesAreThere(t *testing.T) {
	for name, confirms := range map[string]bool{"the node confirms": true, "the node is silent": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := start(t, nil)
				k := newKeeper(t, 1, 8)
				k.join(r)
				begun, err := r.PutStart(r.ctx, upstream(1), items([]string{"k"}, page), model.DefaultReplicateConfig(), nil)
				require.NoError(t, err)
				require.NoError(t, begun[0].Err)
				k.mute.Store(true)
				time.Sleep(time.Second) // until the pull that is parked has been answered
				var ended, copied bool
				go func() {
					got, err := r.PutEnd(r.ctx, upstream(1), []model.EndItem{{Key: "k"}}, nil)
					ended = err == nil && got[0] == nil
				}()
				synctest.Wait()
				go func() {
					_, err := r.CopyStart(r.ctx, model.Caller{Client: k.client}, model.CopyObject, "k", k.segs[0].Name, []string{k.segs[0].Name})
					copied = err == nil
				}()
				synctest.Wait()
				require.False(t, ended || copied)
				for _, c := range []model.Caller{{}, upstream(2)} {
					_, code := r.getBy(c, "k")
					require.Equal(t, errs.ReplicaIsNotReady, code)
					require.False(t, r.existBy(c, "k"))
				}
				k.mute.Store(!confirms)
				wait := time.Second
				if confirms {
					wait = 200 * time.Millisecond
				}
				time.Sleep(wait)
				synctest.Wait()
				require.Equal(t, confirms, ended)
				require.Equal(t, confirms, copied)
				got, code := r.getBy(upstream(2), "k")
				if !confirms {
					require.Equal(t, errs.ObjectNotFound, code, "bytes may be missing")
					why, err := r.Why(r.ctx, model.Caller{}, "k")
					require.NoError(t, err)
					require.Contains(t, why.Reason, "did not say within a second that all bytes had arrived")
					k.leave()
					return
				}
				require.Equal(t, errs.OK, code)
				require.Len(t, got, 1)
				require.Equal(t, model.Checksum{}, r.checksum("k"))
				k.leave()
			})
		})
	}
}

func (r *rig) checksum(key string) model.Checksum {
	r.t.Helper()
	got, err := r.GetReplicas(r.ctx, model.Caller{}, []string{key}, nil)
	require.NoError(r.t, err)
	return got[0].Value.Checksum
}
