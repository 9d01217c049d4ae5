package service_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/api/upstream/calls"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

func (p *pool) segments() []model.SegmentInfo {
	p.t.Helper()
	list, err := p.master.Segments(p.t.Context())
	require.NoError(p.t, err)
	return list
}

func TestWhatAClientAsksAtItsStart(t *testing.T) {
	each(t, calls.V9, func(t *testing.T, v calls.Version) {
		p := newPool(t, nil)
		require.Equal(t, calls.Expected[string]{Value: "2.0.0"}, ask(p, v, calls.ServiceReady, calls.Void{}))
		require.Equal(t, calls.Expected[string]{}, ask(p, v, calls.GetFsdir, calls.Void{}))
		require.Equal(t, calls.Expected[calls.StorageConfig]{Value: calls.StorageConfig{Eviction: true}}, ask(p, v, calls.GetStorageConfig, calls.Void{}))
	})
}

// A client is told to mount again until the master knows all that it has, as in the order of calls that clients make.
func TestClientsComeAndGo(t *testing.T) {
	each(t, calls.V9, func(t *testing.T, v calls.Version) {
		synctest.Test(t, func(t *testing.T) {
			p := newPool(t, nil)
			seg, id := segment(0, 64), node(0)
			if v >= calls.V12 {
				seg.HostID = "rack-1"
			}
			ping := func() calls.ClientStatus {
				got := ask(p, v, calls.Ping, calls.PingRequest{Client: id})
				require.Equal(t, errs.OK, got.Code)
				return got.Value.Status
			}
			remount := func(segs ...calls.Segment) errs.Code {
				return ask(p, v, calls.ReMountSegment, calls.ReMountSegmentRequest{Segments: segs, Client: id}).Code
			}
			require.Equal(t, calls.ClientNeedRemount, ping())
			mount := calls.MountSegmentRequest{Segment: seg, Client: id}
			require.Equal(t, errs.OK, ask(p, v, calls.MountSegment, mount).Code)
			require.Equal(t, errs.OK, ask(p, v, calls.MountSegment, mount).Code, "a repetition")
			require.Equal(t, calls.ClientNeedRemount, ping(), "it may have had more at the master before")
			require.Equal(t, errs.OK, remount(seg))
			require.Equal(t, calls.ClientOK, ping())
			host := "10.0.0.1"
			if v >= calls.V12 {
				host = seg.HostID
			}
			require.Equal(t, model.Segment{
				ID: seg.ID, Name: seg.Name, Base: seg.Base, Size: seg.Size, Endpoint: seg.Endpoint, Protocol: "tcp", HostID: host,
			}, p.segments()[0].Segment)

			time.Sleep(15 * time.Second)
			require.Empty(t, p.segments(), "it sent no ping")
			require.Equal(t, calls.ClientNeedRemount, ping())
			require.Equal(t, errs.OK, remount(seg))
			require.Equal(t, calls.ClientOK, ping())
			require.Len(t, p.segments(), 1)

			bad := seg
			bad.ID.Lo, bad.Size = 9, 0
			require.Equal(t, errs.InvalidParams, ask(p, v, calls.MountSegment, calls.MountSegmentRequest{Segment: bad, Client: id}).Code)
			unmount := calls.UnmountSegmentRequest{Segment: seg.ID, Client: node(5)}
			require.Equal(t, errs.IllegalClient, ask(p, v, calls.UnmountSegment, unmount).Code)
			unmount.Client = id
			require.Equal(t, errs.OK, ask(p, v, calls.UnmountSegment, unmount).Code)
			require.Equal(t, errs.OK, ask(p, v, calls.UnmountSegment, unmount).Code, "an unknown one")
			require.Empty(t, p.segments())
		})
	})
}

// A master that was restarted does not take the memory of a client before the leases of the readers of the master before have
// ended. The client's next ping says to try again.
func TestAClientOfTheMasterBefore(t *testing.T) {
	each(t, calls.V9, func(t *testing.T, v calls.Version) {
		synctest.Test(t, func(t *testing.T) {
			p := newPool(t, nil)
			remount := calls.ReMountSegmentRequest{Segments: []calls.Segment{segment(0, 64)}, Client: node(0)}
			tries := 0
			for ; ask(p, v, calls.Ping, calls.PingRequest{Client: node(0)}).Value.Status == calls.ClientNeedRemount; tries++ {
				require.Less(t, tries, 12)
				time.Sleep(time.Second)
				if code := ask(p, v, calls.ReMountSegment, remount).Code; code != errs.OK {
					require.Equal(t, errs.UnavailableInCurrentStatus, code)
				}
			}
			require.Greater(t, tries, 5)
			p.client(v, 1).put("k", 10, calls.ReplicateConfig{})
		})
	})
}

// A client that is started again has another identifier. If it is so at the place of the process before, it waits for that to count
// as silent, and does not while that gives signs of life.
func TestAClientThatIsStartedAgain(t *testing.T) {
	each(t, calls.V9, func(t *testing.T, v calls.Version) {
		synctest.Test(t, func(t *testing.T) {
			p := newPool(t, nil, 64)
			again := calls.MountSegmentRequest{Segment: segment(0, 64), Client: node(1)}
			again.Segment.ID = model.UUID{Hi: 0x77}
			require.Equal(t, errs.OK, ask(p, v, calls.MountSegment, again).Code)
			require.Len(t, p.segments(), 1)
			require.Equal(t, node(1), p.segments()[0].Client)

			alive, done := make(chan struct{}), make(chan struct{})
			go func() {
				defer close(done)
				for {
					select {
					case <-alive:
						return
					case <-time.After(time.Second):
						ask(p, v, calls.Ping, calls.PingRequest{Client: node(1)})
					}
				}
			}()
			again.Segment.ID, again.Client = model.UUID{Hi: 0x78}, node(2)
			require.Equal(t, errs.UnavailableInCurrentStatus, ask(p, v, calls.MountSegment, again).Code)
			close(alive)
			<-done
		})
	})
}

// All clients of a pool reach its segments, so that what some do not reach is not mounted.
func TestSegmentsOfOtherProtocols(t *testing.T) {
	each(t, calls.V9, func(t *testing.T, v calls.Version) {
		p := newPool(t, nil)
		for _, protocol := range []string{"", "quic", "shm", "tier", "ascend"} {
			seg := segment(0, 64)
			seg.Protocol = protocol
			require.Equal(t, errs.InvalidParams, ask(p, v, calls.MountSegment, calls.MountSegmentRequest{Segment: seg, Client: node(0)}).Code)
			require.Equal(t, errs.InvalidParams, ask(p, v, calls.ReMountSegment, calls.ReMountSegmentRequest{Segments: []calls.Segment{seg}, Client: node(0)}).Code)
		}
		seg := segment(0, 64)
		seg.Protocol, seg.Endpoint = "rdma", ""
		require.Equal(t, errs.OK, ask(p, v, calls.MountSegment, calls.MountSegmentRequest{Segment: seg, Client: node(0)}).Code)
		at := p.client(v, 1).put("k", 10, calls.ReplicateConfig{})[0].Buffer
		require.Equal(t, [2]string{"rdma", seg.Name}, [2]string{at.Protocol, at.Endpoint})
	})
}

// A segment that leaves with a grace stays readable until it is over.
func TestGracefulUnmount(t *testing.T) {
	each(t, calls.V11, func(t *testing.T, v calls.Version) {
		synctest.Test(t, func(t *testing.T) {
			p := newPool(t, nil, 64)
			c := p.client(v, 1)
			c.put("k", 10, calls.ReplicateConfig{})
			status := func() calls.Expected[calls.SegmentStatus] {
				byName := ask(p, v, calls.QuerySegmentStatus, calls.QuerySegmentStatusRequest{Segment: nameOf(0)})
				require.Equal(t, byName, ask(p, v, calls.QuerySegmentStatusByID, calls.QuerySegmentStatusByIDRequest{Segment: segment(0, 0).ID}))
				return byName
			}
			unmount := func(client model.ClientID, grace uint64) errs.Code {
				return ask(p, v, calls.GracefulUnmountSegment, calls.GracefulUnmountSegmentRequest{Segment: segment(0, 0).ID, Client: client, Grace: grace}).Code
			}
			require.Equal(t, calls.SegmentOK, status().Value)
			require.Equal(t, errs.IllegalClient, unmount(node(5), 3000))
			require.Equal(t, errs.InvalidParams, unmount(node(0), 1<<63))
			require.Equal(t, errs.OK, unmount(node(0), 3000))
			require.Equal(t, calls.SegmentGracefullyUnmounting, status().Value)
			require.Equal(t, errs.OK, c.get("k").Code)
			require.Equal(t, errs.NoAvailableHandle, c.start("other", 10, calls.ReplicateConfig{}).Code)
			time.Sleep(5 * time.Second)
			require.Equal(t, errs.SegmentNotFound, status().Code)
			require.Equal(t, errs.ObjectNotFound, c.get("k").Code)
		})
	})
}

func TestAddressesOfClients(t *testing.T) {
	each(t, calls.V9, func(t *testing.T, v calls.Version) {
		p := newPool(t, nil, 64, 64)
		got := ask(p, v, calls.BatchQueryIP, calls.BatchQueryIPRequest{Clients: []model.UUID{node(0), node(1), {Hi: 1}}})
		require.Equal(t, errs.OK, got.Code)
		require.ElementsMatch(t, []calls.ClientIPs{{Client: node(0), IPs: []string{"10.0.0.1"}}, {Client: node(1), IPs: []string{"10.0.0.2"}}}, got.Value)
		require.Empty(t, ask(p, v, calls.BatchQueryIP, calls.BatchQueryIPRequest{}).Value)
	})
}

// A client that has an SSD or NoF segments goes on without them: it is given nothing to write there.
func TestDisksOfClients(t *testing.T) {
	each(t, calls.V9, func(t *testing.T, v calls.Version) {
		p := newPool(t, nil, 64)
		c := p.client(v, 1)
		c.put("k", 10, calls.ReplicateConfig{})
		disk := calls.MountLocalDiskSegmentRequest{Client: c.id, Enable: true}
		require.Equal(t, errs.OK, ask(p, v, calls.MountLocalDiskSegment, disk).Code)
		require.Equal(t, calls.Expected[[]calls.OffloadTask]{}, ask(p, v, calls.OffloadObjectHeartbeat, disk))
		found := calls.NotifyOffloadSuccessRequest{Client: c.id, Objects: []calls.OffloadTask{{Key: "found"}}, Places: []calls.StorageObjectMetadata{{DataSize: 10, Endpoint: "10.0.0.9:1"}}}
		require.Equal(t, errs.OK, ask(p, v, calls.NotifyOffloadSuccess, found).Code)
		require.Equal(t, errs.ObjectNotFound, c.get("found").Code)
		if v >= calls.V10 {
			require.Equal(t, errs.ObjectNotFound, ask(p, v, calls.EvictDiskReplica, calls.EvictDiskReplicaRequest{Client: c.id, Key: "k", Type: calls.TypeLocalDisk}).Code)
			require.Equal(t, []errs.Code{errs.ObjectNotFound}, codes(ask(p, v, calls.BatchEvictDiskReplica, calls.BatchEvictDiskReplicaRequest{Client: c.id, Keys: []string{"k"}})))
			require.Equal(t, errs.OK, c.get("k").Code)
		}
		if v >= calls.V11 {
			require.Equal(t, errs.OK, ask(p, v, calls.ReportSsdCapacity, calls.ReportSsdCapacityRequest{Client: c.id, Capacity: 1 << 40}).Code)
			require.Equal(t, calls.Expected[[]calls.OffloadTask]{}, ask(p, v, calls.PromotionObjectHeartbeat, calls.PromotionObjectHeartbeatRequest{Client: c.id}))
			require.Equal(t, errs.ObjectNotFound, ask(p, v, calls.PromotionAllocStart, calls.PromotionAllocStartRequest{Client: c.id, Key: "k", Size: 10}).Code)
			for _, f := range []*calls.Call[calls.CopyEndRequest, calls.Expected[calls.Void]]{calls.NotifyPromotionSuccess, calls.NotifyPromotionFailure} {
				require.Equal(t, errs.ObjectNotFound, ask(p, v, f, calls.CopyEndRequest{Client: c.id, Key: "k"}).Code)
			}
			mode := errs.UnavailableInCurrentMode
			require.Equal(t, mode, ask(p, v, calls.MountNoFSegment, calls.MountNoFSegmentRequest{Client: c.id}).Code)
			require.Equal(t, mode, ask(p, v, calls.ReMountNoFSegment, calls.ReMountNoFSegmentRequest{Client: c.id}).Code)
			require.Equal(t, mode, ask(p, v, calls.UnmountNoFSegment, calls.UnmountNoFSegmentRequest{Client: c.id}).Code)
			require.Equal(t, calls.Expected[[]calls.NoFSegment]{}, ask(p, v, calls.GetAllNoFSegments, calls.Void{}))
			require.Equal(t, errs.SegmentNotFound, ask(p, v, calls.GetNoFSegmentsByName, calls.GetNoFSegmentsByNameRequest{Segment: "s"}).Code)
		}
		if v >= calls.V12 {
			c.removeAll()
			require.Equal(t, calls.Expected[bool]{}, ask(p, v, calls.PollRemoveAll, calls.PollRemoveAllRequest{Client: c.id}))
		}
		if v >= calls.V13 {
			require.Equal(t, errs.OK, ask(p, v, calls.UnmountLocalDiskSegment, calls.UnmountLocalDiskSegmentRequest{Client: c.id}).Code)
			mode := errs.UnavailableInCurrentMode
			require.Equal(t, mode, ask(p, v, calls.DynamicReplicaCopyStart, calls.DynamicReplicaCopyStartRequest{Client: c.id, Key: "k"}).Code)
			require.Equal(t, mode, ask(p, v, calls.DynamicReplicaCopyEnd, calls.DynamicReplicaCopyEndRequest{Client: c.id, Key: "k"}).Code)
			require.Equal(t, errs.ObjectNotFound, ask(p, v, calls.DynamicReplicaCopyRevoke, calls.DynamicReplicaCopyRevokeRequest{Client: c.id}).Code)
		}
	})
}
