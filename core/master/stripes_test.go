package master_test

import (
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/master"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

const mib = 1 << 20 / page // in pages

func smallStripes(c *master.Config) { c.LeaseTTL, c.StripeSize = 0, 1<<20 }

// write puts one object of so many pages and returns its copies.
func (r *rig) write(cfg model.ReplicateConfig, key string, pages int) ([]model.Replica, error) {
	r.t.Helper()
	got, err := r.PutStart(r.ctx, model.Caller{Client: r.client}, items([]string{key}, pages*page), cfg, nil)
	require.NoError(r.t, err)
	if got[0].Err != nil {
		return nil, got[0].Err
	}
	require.Equal(r.t, one(errs.OK), r.end(key))
	return got[0].Value, nil
}

func partsOf(r model.Replica) (names []string, sizes []uint64) {
	for _, p := range r.Parts {
		names, sizes = append(names, p.Segment), append(sizes, p.Size)
	}
	return names, sizes
}

// An object that is larger than any segment lies over several; when one of them goes so
// does the object, and the memory of its other pieces is free again.
func TestAnObjectLargerThanEverySegment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, smallStripes, 2*mib, 2*mib, 2*mib)
		copies, err := r.write(model.DefaultReplicateConfig(), "large", 5*mib)
		require.NoError(t, err)
		require.Len(t, copies, 1)
		names, sizes := partsOf(copies[0])
		require.Equal(t, []uint64{1 << 20, 1 << 20, 1 << 20, 1 << 20, 1 << 20}, sizes)
		require.Subset(t, names, []string{"node-0:1", "node-1:1", "node-2:1"}, "on all of them")
		read, err := r.GetReplicas(r.ctx, model.Caller{}, []string{"large"}, nil)
		require.NoError(t, err)
		back, _ := partsOf(read[0].Value.Replicas[0])
		require.Equal(t, names, back, "in the order of the bytes")
		_, err = r.write(model.DefaultReplicateConfig(), "too large", 7*mib)
		require.Equal(t, errs.NoAvailableHandle, errs.CodeOf(err))

		require.NoError(t, r.UnmountSegment(r.ctx, r.client, r.segs[1].ID, 0))
		require.Equal(t, one(errs.ObjectNotFound), r.get("large"))
		synctest.Wait()
		require.Empty(t, r.alloc.Live())
		_, err = r.write(model.DefaultReplicateConfig(), "next", 4*mib)
		require.NoError(t, err, "all of what is left can be had")
	})
}

// Copies of a striped object never share a segment: the loss of one leaves the other whole.
func TestCopiesInPiecesStayApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, smallStripes, 2*mib, 2*mib, 2*mib, 2*mib)
		copies, err := r.write(model.ReplicateConfig{ReplicaNum: 2}, "k", 2*mib)
		require.NoError(t, err)
		require.Len(t, copies, 2)
		a, _ := partsOf(copies[0])
		b, _ := partsOf(copies[1])
		for _, name := range a {
			require.NotContains(t, b, name)
		}
		require.NoError(t, r.UnmountSegment(r.ctx, r.client, copies[0].SegmentID, 0))
		synctest.Wait()
		read, err := r.GetReplicas(r.ctx, model.Caller{}, []string{"k"}, nil)
		require.NoError(t, err)
		require.Len(t, read[0].Value.Replicas, 1)
		require.Equal(t, copies[1].ID, read[0].Value.Replicas[0].ID)
		live := uint64(0)
		for _, x := range r.alloc.Live() {
			live += x.Size
		}
		require.Equal(t, uint64(2<<20), live, "the rest of the lost copy is free")
	})
}

// With the free memory in single holes, a larger object takes them in pieces.
func TestHolesAreUsedInPieces(t *testing.T) {
	const hole = 64 // pages, as small as pieces get
	r := start(t, noLease, 8*hole)
	for i, k := range names("k", 0, 8) {
		_, err := r.write(model.ReplicateConfig{ReplicaNum: 1, HardPin: i%2 == 0}, k, hole)
		require.NoError(t, err)
	}
	copies, err := r.write(model.DefaultReplicateConfig(), "large", 4*hole)
	require.NoError(t, err)
	_, sizes := partsOf(copies[0])
	require.Equal(t, []uint64{hole * page, hole * page, hole * page, hole * page}, sizes)
	require.Equal(t, []string{"k00000", "k00002", "k00004", "k00006", "large"}, r.here(), "pins stay")
}

func TestWhereObjectsGo(t *testing.T) {
	r := start(t, func(c *master.Config) { noLease(c); c.AllocationStrategy = "local_first" })
	for i := range 4 {
		seg := segment(i, 64*page)
		seg.HostID = fmt.Sprintf("host-%d", i/2) // two segments a host
		require.NoError(t, r.MountSegment(r.ctx, r.client, seg))
	}
	place := func(key string, cfg model.ReplicateConfig) (names []string) {
		copies, err := r.write(cfg, key, 1)
		require.NoError(t, err)
		for _, c := range copies {
			names = append(names, c.Segment)
		}
		return names
	}
	onHost1 := []string{"node-2:1", "node-3:1"}
	for _, k := range names("local", 0, 10) {
		require.Subset(t, onHost1, place(k, model.ReplicateConfig{ReplicaNum: 1, HostID: "host-1"}))
		require.Subset(t, []string{"node-0:1", "node-1:1"}, place("0"+k, model.ReplicateConfig{ReplicaNum: 1, HostID: "host-0"}))
		require.Equal(t, []string{"node-1:1"}, place("p"+k, model.ReplicateConfig{ReplicaNum: 1, HostID: "host-1", PreferredSegments: []string{"node-1:1"}}), "a wish comes first")
		require.ElementsMatch(t, onHost1, place("s"+k, model.ReplicateConfig{ReplicaNum: 2, HostID: "host-1", SameNode: true, PreferredSegments: []string{"node-2:1"}}))
	}
}
