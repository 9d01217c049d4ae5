package service_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/api/upstream/calls"
	"github.com/mooncake-go/mooncake/core/api/upstream/service"
	"github.com/mooncake-go/mooncake/core/master"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

func TestLifecycleOfAnObject(t *testing.T) {
	each(t, calls.V9, func(t *testing.T, v calls.Version) {
		p := newPool(t, nil, 64)
		c, other := p.client(v, 1), p.client(v, 2)
		require.Equal(t, errs.ObjectNotFound, c.get("k").Code)
		require.False(t, c.exist("k"))

		begun := c.start("k", 1000, calls.ReplicateConfig{})
		require.Equal(t, errs.OK, begun.Code)
		require.Len(t, begun.Value, 1)
		at := begun.Value[0]
		require.NotZero(t, at.ID)
		require.Equal(t, calls.Descriptor{
			ID: at.ID, Kind: calls.TypeMemory, Status: calls.StatusProcessing,
			Buffer: calls.Buffer{Size: 1000, Address: segment(0, 0).Base, Protocol: "tcp", Endpoint: segment(0, 0).Endpoint},
		}, at)
		require.Equal(t, errs.ReplicaIsNotReady, c.get("k").Code)
		require.False(t, c.exist("k"))
		require.Equal(t, errs.ObjectAlreadyExists, other.start("k", 1000, calls.ReplicateConfig{}).Code)
		require.Equal(t, errs.IllegalClient, other.end("k"))

		require.Equal(t, errs.OK, c.end("k"))
		require.Equal(t, errs.OK, c.end("k"), "a repetition")
		require.True(t, other.exist("k"))
		at.Status = calls.StatusComplete
		got := other.get("k")
		require.Equal(t, calls.Expected[calls.ReplicaList]{Value: calls.ReplicaList{Replicas: []calls.Descriptor{at}, LeaseTTL: 10000}}, got)
		require.Equal(t, errs.ObjectAlreadyExists, c.start("k", 1000, calls.ReplicateConfig{}).Code)
		require.Equal(t, errs.InvalidWrite, c.revoke("k"))

		require.Equal(t, errs.ObjectHasLease, c.remove("k", false))
		require.Equal(t, errs.OK, c.remove("k", true))
		require.Equal(t, errs.ObjectNotFound, c.remove("k", true))
		require.Equal(t, errs.ObjectNotFound, c.end("k"))

		require.Equal(t, errs.InvalidParams, c.start("", 1, calls.ReplicateConfig{}).Code, "an empty key")
		require.False(t, c.exist(""))
		require.Equal(t, errs.ObjectNotFound, c.get("").Code)
		require.Equal(t, errs.InvalidParams, c.start("empty", 0, calls.ReplicateConfig{}).Code)
		require.Equal(t, errs.NoAvailableHandle, c.start("large", 1<<20, calls.ReplicateConfig{}).Code)
	})
}

func TestBatches(t *testing.T) {
	each(t, calls.V9, func(t *testing.T, v calls.Version) {
		p := newPool(t, nil, 64)
		c := p.client(v, 1)
		c.put("a", 10, calls.ReplicateConfig{})
		q := calls.BatchPutStartRequest{Client: c.id, Keys: []string{"a", "b", "c"}, Sizes: []uint64{10, 20, 30}, Config: calls.ReplicateConfig{Replicas: 1}, Tenant: "default"}
		got := ask(p, v, calls.BatchPutStart, q)
		require.Equal(t, []errs.Code{errs.ObjectAlreadyExists, errs.OK, errs.OK}, codes(got))
		require.Equal(t, uint64(20), got[1].Value[0].Buffer.Size)
		ended := ask(p, v, calls.BatchPutEnd, calls.BatchPutEndRequest{Client: c.id, Objects: []calls.ObjectMeta{{Key: "b"}, {Key: "none"}}, Tenant: "default"})
		require.Equal(t, []errs.Code{errs.OK, errs.ObjectNotFound}, codes(ended))
		revoked := ask(p, v, calls.BatchPutRevoke, calls.BatchPutRevokeRequest{Client: c.id, Keys: []string{"c", "b"}, Tenant: "default"})
		require.Equal(t, []errs.Code{errs.OK, errs.InvalidWrite}, codes(revoked))

		require.Equal(t, []calls.Expected[bool]{{Value: true}, {}, {Value: true}, {}},
			ask(p, v, calls.BatchExistKey, calls.BatchExistKeyRequest{Keys: []string{"b", "c", "a", ""}, Tenant: "default"}))
		lists := ask(p, v, calls.BatchGetReplicaList, calls.BatchGetReplicaListRequest{Keys: []string{"b", "c", "a"}, Tenant: "default"})
		require.Equal(t, []errs.Code{errs.OK, errs.ObjectNotFound, errs.OK}, codes(lists))
		require.Equal(t, [2]uint64{20, 10}, [2]uint64{lists[0].Value.Replicas[0].Buffer.Size, lists[2].Value.Replicas[0].Buffer.Size})

		q.Sizes = q.Sizes[:2]
		require.Equal(t, []errs.Code{errs.InvalidParams, errs.InvalidParams, errs.InvalidParams}, codes(ask(p, v, calls.BatchPutStart, q)))
		require.Empty(t, ask(p, v, calls.BatchPutStart, calls.BatchPutStartRequest{Client: c.id, Config: calls.ReplicateConfig{Replicas: 1}, Tenant: "default"}))
		if v >= calls.V10 {
			removed := ask(p, v, calls.BatchRemove, calls.BatchRemoveRequest{Keys: []string{"a", "none"}, Force: true, Tenant: "default"})
			require.Equal(t, []errs.Code{errs.OK, errs.ObjectNotFound}, codes(removed))
		}
	})
}

// Batches may be larger than what one call of the master takes.
func TestLargeBatches(t *testing.T) {
	p := newPool(t, nil, 64)
	c := p.client(calls.V13, 1)
	keys := make([]string, 4*service.Most+4465) // 70,000, the most that upstream was seen to send
	for i := range keys {
		keys[i] = fmt.Sprintf("k%d", i)
	}
	c.put(keys[0], 10, calls.ReplicateConfig{})
	c.put(keys[len(keys)-1], 10, calls.ReplicateConfig{})
	got := ask(p, c.v, calls.BatchExistKey, calls.BatchExistKeyRequest{Keys: keys, Tenant: "default"})
	require.Len(t, got, len(keys))
	there := 0
	for i := range got {
		if got[i].Value {
			there++
		}
	}
	require.Equal(t, 2, there)
	require.True(t, got[0].Value && got[len(got)-1].Value)
}

func TestRegularExpressions(t *testing.T) {
	each(t, calls.V9, func(t *testing.T, v calls.Version) {
		p := newPool(t, nil, 64)
		c := p.client(v, 1)
		for _, k := range []string{"b1", "b2", "x"} {
			c.put(k, 10, calls.ReplicateConfig{})
		}
		require.Equal(t, errs.OK, c.start("b3", 10, calls.ReplicateConfig{}).Code)
		found := ask(p, v, calls.GetReplicaListByRegex, calls.GetReplicaListByRegexRequest{Key: "^b[0-9]$", Tenant: "default"})
		require.Equal(t, errs.OK, found.Code)
		sizes := map[string]int{}
		for _, k := range found.Value {
			sizes[k.Key] = len(k.Replicas)
		}
		require.Equal(t, map[string]int{"b1": 1, "b2": 1}, sizes)
		require.Equal(t, errs.InvalidParams, ask(p, v, calls.GetReplicaListByRegex, calls.GetReplicaListByRegexRequest{Key: "(", Tenant: "default"}).Code)

		remove := func(expr string, force bool) calls.Expected[int64] {
			return ask(p, v, calls.RemoveByRegex, calls.RemoveByRegexRequest{Key: expr, Force: force, Tenant: "default"})
		}
		require.Equal(t, calls.Expected[int64]{}, remove("^b", false), "their leases protect them")
		require.Equal(t, calls.Expected[int64]{Value: 2}, remove("^b[0-9]$", true))
		require.Equal(t, errs.InvalidParams, remove("(", true).Code)
		require.Equal(t, int64(1), c.removeAll())
	})
}

// Keys come in pages of the master.
func TestRegularExpressionsOverPages(t *testing.T) {
	p := newPool(t, nil, 256)
	c := p.client(calls.V12, 1)
	const n = 1<<12 + 3
	q := calls.BatchPutStartRequest{Client: c.id, Config: calls.ReplicateConfig{Replicas: 1}, Tenant: "default"}
	end := calls.BatchPutEndRequest{Client: c.id, Type: calls.TypeAll, Tenant: "default"}
	for i := range n {
		k := fmt.Sprintf("k%05d", i)
		q.Keys, q.Sizes, end.Objects = append(q.Keys, k), append(q.Sizes, 8), append(end.Objects, calls.ObjectMeta{Key: k})
	}
	ask(p, c.v, calls.BatchPutStart, q)
	ask(p, c.v, calls.BatchPutEnd, end)
	found := ask(p, c.v, calls.GetReplicaListByRegex, calls.GetReplicaListByRegexRequest{Key: "k", Tenant: "default"})
	require.Len(t, found.Value, n)
	distinct := map[string]bool{}
	for _, k := range found.Value {
		distinct[k.Key] = true
	}
	require.Len(t, distinct, n)
}

func TestUpserts(t *testing.T) {
	each(t, calls.V10, func(t *testing.T, v calls.Version) {
		p := newPool(t, nil, 64)
		c := p.client(v, 1)
		start := func(size uint64) calls.Expected[[]calls.Descriptor] {
			return ask(p, v, calls.UpsertStart, calls.UpsertStartRequest{Client: c.id, Key: "k", Size: size, Config: calls.ReplicateConfig{Replicas: 1}, Tenant: "default"})
		}
		end := func() errs.Code {
			return ask(p, v, calls.UpsertEnd, calls.UpsertEndRequest{Client: c.id, ObjectMeta: calls.ObjectMeta{Key: "k"}, Tenant: "default"}).Code
		}
		require.Equal(t, errs.OK, start(10).Code)
		require.Equal(t, errs.OK, end())
		in := start(10)
		require.Equal(t, errs.OK, in.Code)
		require.Equal(t, errs.ReplicaIsNotReady, c.get("k").Code)
		require.Equal(t, errs.OK, end())
		require.Equal(t, uint64(10), c.get("k").Value.Replicas[0].Buffer.Size)
		require.Equal(t, errs.OK, start(20).Code)
		require.Equal(t, errs.OK, ask(p, v, calls.UpsertRevoke, calls.UpsertRevokeRequest{Client: c.id, Key: "k", Tenant: "default"}).Code)
		require.Equal(t, errs.ObjectNotFound, c.get("k").Code)

		got := ask(p, v, calls.BatchUpsertStart, calls.BatchUpsertStartRequest{
			Client: c.id, Keys: []string{"a", "b"}, Sizes: []uint64{1, 2}, Config: calls.ReplicateConfig{Replicas: 1}, Tenant: "default",
		})
		require.Equal(t, []errs.Code{errs.OK, errs.OK}, codes(got))
		require.Equal(t, []errs.Code{errs.OK}, codes(ask(p, v, calls.BatchUpsertEnd, calls.BatchUpsertEndRequest{Client: c.id, Objects: []calls.ObjectMeta{{Key: "a"}}, Tenant: "default"})))
		require.Equal(t, []errs.Code{errs.OK, errs.InvalidWrite},
			codes(ask(p, v, calls.BatchUpsertRevoke, calls.BatchUpsertRevokeRequest{Client: c.id, Keys: []string{"b", "a"}, Tenant: "default"})))
	})
}

// How an object is to be stored reaches the master.
func TestConfigurations(t *testing.T) {
	each(t, calls.V9, func(t *testing.T, v calls.Version) {
		p := newPool(t, nil, 64, 64, 64)
		c := p.client(v, 1)
		story := func(key string) model.Story {
			s, err := p.master.Why(t.Context(), model.Caller{}, key)
			require.NoError(t, err)
			return s
		}
		require.Len(t, c.put("two", 10, calls.ReplicateConfig{Replicas: 2}), 2)
		require.Len(t, c.put("more than there are", 10, calls.ReplicateConfig{Replicas: 1 << 40}), 3)
		require.Equal(t, errs.InvalidParams, ask(p, v, calls.PutStart, calls.PutStartRequest{Client: c.id, Key: "none", Size: 1, Tenant: "default"}).Code)
		for i := range 3 {
			one, several := fmt.Sprintf("one %d", i), fmt.Sprintf("several %d", i)
			require.Equal(t, segment(i, 0).Endpoint, c.put(one, 10, calls.ReplicateConfig{PreferredSegment: nameOf(i)})[0].Buffer.Endpoint)
			require.Equal(t, segment(i, 0).Endpoint, c.put(several, 10, calls.ReplicateConfig{PreferredSegments: []string{"gone:1", nameOf(i)}})[0].Buffer.Endpoint)
		}
		c.put("soft", 10, calls.ReplicateConfig{SoftPin: calls.SoftPinEnable})
		require.Greater(t, story("soft").SoftPinLeft, 29*time.Minute)
		c.put("plain", 10, calls.ReplicateConfig{})
		require.Zero(t, story("plain").SoftPinLeft)
		require.Equal(t, model.Checksum{}, story("plain").Checksum)
		if v >= calls.V10 {
			c.put("hard", 10, calls.ReplicateConfig{HardPin: true})
			require.True(t, story("hard").HardPin)
		}
		if v >= calls.V11 {
			c.put("typed", 10, calls.ReplicateConfig{DataType: 2})
			require.Equal(t, model.DataTensor, story("typed").DataType)
			c.put("typed otherwise", 10, calls.ReplicateConfig{DataType: 200})
			require.Equal(t, model.DataUnknown, story("typed otherwise").DataType)
			require.Equal(t, errs.InvalidParams, c.start("nof", 10, calls.ReplicateConfig{NoFReplicas: 1}).Code)
		}
		if v >= calls.V12 {
			c.put("grouped", 10, calls.ReplicateConfig{Groups: calls.Optional[[]string]{Value: []string{"g"}, Present: true}})
			require.Equal(t, "g", story("grouped").Group)
			require.Equal(t, errs.InvalidParams, c.start("no group", 10, calls.ReplicateConfig{Groups: calls.Optional[[]string]{Present: true}}).Code)
		}
		if v >= calls.V13 {
			c.put("softer", 10, calls.ReplicateConfig{SoftPin: calls.SoftPinEnable, SoftPinTTL: calls.Optional[uint64]{Value: 60_000, Present: true}})
			require.LessOrEqual(t, story("softer").SoftPinLeft, time.Minute)
			require.NotZero(t, story("softer").SoftPinLeft)
			require.Equal(t, errs.InvalidParams, c.start("too soft", 10, calls.ReplicateConfig{SoftPin: calls.SoftPinEnable, SoftPinTTL: calls.Optional[uint64]{Value: 1 << 63, Present: true}}).Code)
			require.Equal(t, errs.InvalidParams, c.start("dfs", 10, calls.ReplicateConfig{DFSReplicas: 1}).Code)
		}
	})
}

// A checksum whose algorithm is not known is not stored as one that readers could compare.
func TestChecksumsOfClientsAreLeftOut(t *testing.T) {
	p := newPool(t, nil, 64)
	c := p.client(calls.V13, 1)
	require.Equal(t, errs.OK, c.start("k", 10, calls.ReplicateConfig{}).Code)
	sum := calls.Optional[uint64]{Value: 0x1234, Present: true}
	require.Equal(t, errs.OK, ask(p, c.v, calls.PutEnd, calls.PutEndRequest{Client: c.id, ObjectMeta: calls.ObjectMeta{Key: "k", Checksum: sum}, Type: calls.TypeAll, Tenant: "default"}).Code)
	require.False(t, c.get("k").Value.Checksum.Present)
	got, err := p.master.GetReplicas(t.Context(), model.Caller{}, []string{"k"}, nil)
	require.NoError(t, err)
	require.Equal(t, model.Checksum{}, got[0].Value.Checksum)
}

// Replicas of other kinds are never handed out, and so do not end.
func TestOtherKindsOfReplicas(t *testing.T) {
	each(t, calls.V9, func(t *testing.T, v calls.Version) {
		p := newPool(t, nil, 64)
		c := p.client(v, 1)
		require.Equal(t, errs.OK, c.start("k", 10, calls.ReplicateConfig{}).Code)
		for _, kind := range []calls.ReplicaType{calls.TypeDisk, calls.TypeLocalDisk, calls.TypeNoF, calls.TypeDFS, -1} {
			require.Equal(t, errs.InvalidParams, ask(p, v, calls.PutEnd, calls.PutEndRequest{Client: c.id, ObjectMeta: calls.ObjectMeta{Key: "k"}, Type: kind, Tenant: "default"}).Code)
			require.Equal(t, errs.InvalidParams, ask(p, v, calls.PutRevoke, calls.PutRevokeRequest{Client: c.id, Key: "k", Type: kind, Tenant: "default"}).Code)
		}
		for _, kind := range []calls.ReplicaType{calls.TypeMemory, calls.TypeAll} {
			require.Equal(t, errs.OK, ask(p, v, calls.PutEnd, calls.PutEndRequest{Client: c.id, ObjectMeta: calls.ObjectMeta{Key: "k"}, Type: kind, Tenant: "default"}).Code)
		}
	})
}

// Stripes and memory that no client of upstream reaches are for the clients of this project.
func TestWhatUpstreamsClientsCannotRead(t *testing.T) {
	each(t, calls.V9, func(t *testing.T, v calls.Version) {
		p := newPool(t, func(c *master.Config) { c.StripeSize = 1 << 20 }, 4<<10, 4<<10)
		c := p.client(v, 1)
		ours := model.Caller{Client: model.UUID{Hi: 0x90}}
		put := func(key string, size uint64, cfg model.ReplicateConfig) model.Replica {
			got, err := p.master.PutStart(t.Context(), ours, []model.PutItem{{Key: key, Size: size}}, cfg, nil)
			require.NoError(t, err)
			require.NoError(t, got[0].Err)
			ended, err := p.master.PutEnd(t.Context(), ours, []model.EndItem{{Key: key}}, nil)
			require.NoError(t, err)
			require.NoError(t, ended[0])
			return got[0].Value[0]
		}
		require.NotEmpty(t, put("striped", 5<<19, model.DefaultReplicateConfig()).More)
		elsewhere := model.Segment{ID: model.UUID{Hi: 0x5f}, Name: "10.0.1.1:1", Endpoint: "10.0.1.1:1", Base: 1 << 50, Size: 4 << 20, Protocol: "quic"}
		require.NoError(t, p.master.MountSegment(t.Context(), ours.Client, elsewhere))
		prefer := model.DefaultReplicateConfig()
		prefer.PreferredSegments = []string{elsewhere.Name}
		put("elsewhere", 10, prefer)
		prefer.ReplicaNum = 2
		put("both", 10, prefer)

		for _, key := range []string{"striped", "elsewhere"} {
			require.Equal(t, errs.ReplicaIsNotReady, c.get(key).Code)
			require.False(t, c.exist(key))
			require.Equal(t, errs.ObjectAlreadyExists, c.start(key, 10, calls.ReplicateConfig{}).Code)
		}
		both := c.get("both").Value.Replicas
		require.Len(t, both, 1)
		require.NotEqual(t, elsewhere.Endpoint, both[0].Buffer.Endpoint)
		found := ask(p, v, calls.GetReplicaListByRegex, calls.GetReplicaListByRegexRequest{Tenant: "default"})
		require.Len(t, found.Value, 1)

		require.Equal(t, errs.OK, c.remove("striped", true))
		whole := c.put("whole", 5<<18, calls.ReplicateConfig{Replicas: 3, PreferredSegment: elsewhere.Name})
		require.Len(t, whole, 2)
		for _, d := range whole {
			require.Equal(t, uint64(5<<18), d.Buffer.Size)
			require.NotEqual(t, elsewhere.Endpoint, d.Buffer.Endpoint)
		}
		require.Equal(t, errs.NoAvailableHandle, c.start("too large in one piece", 5<<20, calls.ReplicateConfig{}).Code)
	})
}

// A client of upstream never says that it has stopped writing. The memory of its puts that did not end is held for
// put_start_release_timeout, whether it gives them up or is given up itself.
func TestMemoryOfUnfinishedPutsIsHeld(t *testing.T) {
	each(t, calls.V9, func(t *testing.T, v calls.Version) {
		synctest.Test(t, func(t *testing.T) {
			p := newPool(t, func(c *master.Config) { c.PutReleaseTimeout = time.Minute }, 64)
			c := &client{p, v, node(1)}
			p.join(v, 1, 64)
			require.Equal(t, errs.OK, c.start("revoked", 40<<10, calls.ReplicateConfig{PreferredSegment: nameOf(0)}).Code)
			require.Equal(t, errs.OK, c.revoke("revoked"))
			require.Equal(t, errs.ObjectNotFound, c.get("revoked").Code)
			require.Equal(t, errs.OK, c.start("left", 20<<10, calls.ReplicateConfig{PreferredSegment: nameOf(0)}).Code)
			held := func() [2]uint64 {
				segs, err := p.master.Segments(t.Context())
				require.NoError(t, err)
				require.Equal(t, nameOf(0), segs[0].Name)
				return [2]uint64{segs[0].Writing, segs[0].Held}
			}
			require.Equal(t, [2]uint64{20 << 10, 40 << 10}, held())
			alive := func(d time.Duration) { // of the other node; c is silent
				for ; d > 0; d -= time.Second {
					time.Sleep(time.Second)
					got := ask(p, v, calls.Ping, calls.PingRequest{Client: node(0)})
					require.Equal(t, calls.ClientOK, got.Value.Status)
				}
			}
			alive(15 * time.Second)
			require.Equal(t, [2]uint64{0, 60 << 10}, held(), "the client expired")
			require.Equal(t, errs.NoAvailableHandle, p.client(v, 3).start("other", 30<<10, calls.ReplicateConfig{}).Code)
			alive(43 * time.Second)
			require.Equal(t, [2]uint64{0, 60 << 10}, held())
			alive(4 * time.Second)
			require.Equal(t, [2]uint64{0, 0}, held())
			p.client(v, 3).put("other", 60<<10, calls.ReplicateConfig{})
		})
	})
}

// Tenants are those of V12 and later; the clients before have the default one.
func TestClearReplicas(t *testing.T) {
	each(t, calls.V9, func(t *testing.T, v calls.Version) {
		p := newPool(t, func(c *master.Config) { c.LeaseTTL = 0 }, 64)
		c, other := p.client(v, 1), p.client(v, 2)
		c.put("mine", 10, calls.ReplicateConfig{})
		other.put("other's", 10, calls.ReplicateConfig{})
		got := ask(p, v, calls.BatchReplicaClear, calls.BatchReplicaClearRequest{Keys: []string{"mine", "other's", "none"}, Client: c.id})
		require.Equal(t, calls.Expected[[]string]{Value: []string{"mine"}}, got)
		require.Equal(t, errs.ObjectNotFound, c.get("mine").Code)
		require.Equal(t, errs.OK, c.get("other's").Code)
		require.Equal(t, calls.Expected[[]string]{}, ask(p, v, calls.BatchReplicaClear, calls.BatchReplicaClearRequest{}))
	})
}

// A master that stops answers each item of a batch, and a call whose response has no place for an error code is refused.
func TestAMasterThatDoesNotServe(t *testing.T) {
	each(t, calls.V9, func(t *testing.T, v calls.Version) {
		p := newPool(t, nil, 64)
		c := p.client(v, 1)
		require.NoError(t, p.master.Stop(t.Context()))
		down := errs.UnavailableInCurrentStatus
		require.Equal(t, down, ask(p, v, calls.ServiceReady, calls.Void{}).Code)
		require.Equal(t, down, ask(p, v, calls.Ping, calls.PingRequest{Client: c.id}).Code)
		require.Equal(t, down, c.get("k").Code)
		require.Equal(t, []errs.Code{down, down}, codes(ask(p, v, calls.BatchExistKey, calls.BatchExistKeyRequest{Keys: []string{"a", "b"}, Tenant: "default"})))
		require.Equal(t, down, c.start("k", 1, calls.ReplicateConfig{}).Code)
		_, err := askFailing(p, v, calls.RemoveAll, calls.RemoveAllRequest{Tenant: "default"})
		require.ErrorContains(t, err, "code 302")
	})
}
