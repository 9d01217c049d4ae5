package convert

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	masterv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/master/v1"
	nodev1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/node/v1"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// FuzzRequest decodes bytes as each request with columns and turns what passes back into
// a message, which must be the same.
func FuzzRequest(f *testing.F) {
	add := func(m proto.Message) {
		b, err := proto.Marshal(m)
		require.NoError(f, err)
		f.Add(b)
	}
	add(putStart(model.Caller{Client: model.UUID{Hi: 1}}, []model.PutItem{{Key: "a", Size: 1}, {Key: "\xff", Size: 1 << 63, Group: "g"}}, &model.ReplicateConfig{ReplicaNum: 2, PreferredSegments: []string{"s"}}))
	add(putEnd(model.Caller{Client: model.UUID{Lo: 1}}, []model.EndItem{{Key: "a", Checksum: model.Checksum{Kind: 1, Value: 7}, Put: 3}}))
	add(ToPutRevoke(model.Caller{Client: model.UUID{Lo: 1}}, []model.RevokeItem{{Key: "a", Put: 1 << 63}, {Key: "b", Quarantined: true}}))
	add(&masterv1.PingRequest{Peers: []*masterv1.PeerReport{ToPeerReport(model.PeerReport{Endpoint: "e", Done: 1, Failed: 2, Bytes: 3, Busy: time.Second})}})
	add(ToTaskSpec(model.TaskSpec{Kind: model.MoveObject, Tenant: "t", Key: "k", Source: "s", Targets: []string{"u"}}))
	add(&masterv1.RemountSegmentsRequest{Client: ToUUID(model.UUID{Lo: 2}), Segments: []*masterv1.Segment{ToSegment(model.Segment{Name: "n", Size: 3})}})
	add(ToStage([]model.StageRead{{Segment: model.UUID{Lo: 1}, Replica: 2, Size: 9, Offset: 3, Length: 6}, {Replica: 1, Size: 1, Length: 1}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		stage := new(nodev1.StageRequest)
		if proto.Unmarshal(b, stage) == nil {
			if reads, err := FromStage(stage); err == nil {
				back, err := FromStage(ToStage(reads))
				require.NoError(t, err)
				require.Equal(t, reads, back)
			}
		}
		start := new(masterv1.PutStartRequest)
		if proto.Unmarshal(b, start) == nil {
			if items, cfg, err := FromPutStart(start); err == nil {
				again := putStart(FromCaller(start.GetCaller()), items, &cfg)
				back, config, err := FromPutStart(again)
				require.NoError(t, err)
				require.Equal(t, items, back)
				require.Equal(t, again.GetConfig().String(), putStart(model.Caller{}, nil, &config).GetConfig().String())
			}
		}
		end := new(masterv1.PutEndRequest)
		if proto.Unmarshal(b, end) == nil {
			if items, err := FromPutEnd(end); err == nil {
				back, err := FromPutEnd(putEnd(FromCaller(end.GetCaller()), items))
				require.NoError(t, err)
				require.Equal(t, items, back)
			}
		}
		revoke := new(masterv1.PutRevokeRequest)
		if proto.Unmarshal(b, revoke) == nil {
			if items, err := FromPutRevoke(revoke); err == nil {
				back, err := FromPutRevoke(ToPutRevoke(FromCaller(revoke.GetCaller()), items))
				require.NoError(t, err)
				require.Equal(t, items, back)
			}
		}
		ping := new(masterv1.PingRequest)
		if proto.Unmarshal(b, ping) == nil {
			if report, err := FromPing(ping); err == nil {
				require.Len(t, report.Peers, len(ping.GetPeers()))
				back, err := FromPing(&masterv1.PingRequest{Peers: Each(report.Peers, ToPeerReport)})
				require.NoError(t, err)
				require.Equal(t, report, back)
			}
		}
		spec := new(masterv1.TaskSpec)
		if proto.Unmarshal(b, spec) == nil {
			if s, err := FromTaskSpec(spec); err == nil {
				back, err := FromTaskSpec(ToTaskSpec(s))
				require.NoError(t, err)
				require.Equal(t, s.Key, back.Key)
				require.Len(t, back.Targets, len(s.Targets))
			}
		}
		re := new(masterv1.RemountSegmentsRequest)
		if proto.Unmarshal(b, re) == nil {
			for _, s := range Each(re.GetSegments(), FromSegment) {
				require.Equal(t, s, FromSegment(ToSegment(s)))
			}
		}
	})
}

func putStart(caller model.Caller, items []model.PutItem, cfg *model.ReplicateConfig) *masterv1.PutStartRequest {
	in := &masterv1.PutStartRequest{Caller: ToCaller(caller), Config: &masterv1.ReplicateConfig{}}
	FillPutStart(in, items, cfg)
	return in
}

func putEnd(caller model.Caller, items []model.EndItem) *masterv1.PutEndRequest {
	in := &masterv1.PutEndRequest{Caller: ToCaller(caller)}
	FillPutEnd(in, items)
	return in
}

// FuzzAnswer decodes bytes as each answer with columns.
func FuzzAnswer(f *testing.F) {
	b, err := proto.Marshal(ToObjects([]model.Result[model.Object]{
		{Value: model.Object{Size: 4, LeaseTTL: time.Second, Replicas: []model.Replica{{ID: 1, Part: model.Part{Segment: "s", Size: 4}}, {ID: 2, Part: model.Part{Segment: "t", Size: 3}, More: []model.Part{{Size: 1}}}}, Grains: []uint32{1, 2, 3}}},
		{Err: errs.ObjectNotFound.Err()},
	}))
	require.NoError(f, err)
	f.Add(uint8(2), b)
	b, err = proto.Marshal(ToAllocations([]model.Result[[]model.Replica]{{Value: []model.Replica{{ID: 1, Part: model.Part{Size: 1}}}}}))
	require.NoError(f, err)
	f.Add(uint8(1), b)
	for _, m := range []proto.Message{
		ToStory(model.Story{Fate: model.FateEvicted, When: time.UnixMicro(1), Reason: "r", LeaseLeft: 1, Replicas: []model.Replica{{ID: 1, Part: model.Part{Size: 1}}}}),
		ToPlan(model.CopyPlan{Source: model.Replica{ID: 1, Part: model.Part{Size: 1}}}),
		ToTask(model.Task{Spec: model.TaskSpec{Key: "k"}, Message: "m"}),
		&masterv1.FetchTasksResponse{Tasks: []*masterv1.Assignment{ToAssignment(model.Assignment{MaxRetries: 3})}},
	} {
		b, err := proto.Marshal(m)
		require.NoError(f, err)
		f.Add(uint8(1), b)
	}
	f.Fuzz(func(t *testing.T, n uint8, b []byte) {
		get := new(masterv1.GetReplicasResponse)
		if proto.Unmarshal(b, get) == nil {
			if out, err := FromObjects(int(n), get, &model.Answer[model.Object]{}); err == nil {
				require.Len(t, out, int(n))
			}
		}
		put := new(masterv1.PutStartResponse)
		if proto.Unmarshal(b, put) == nil {
			if out, err := FromAllocations(int(n), put, &model.Answer[[]model.Replica]{}); err == nil {
				require.Len(t, out, int(n))
			}
		}
		why := new(masterv1.WhyResponse)
		if proto.Unmarshal(b, why) == nil {
			if s, err := FromStory(model.Caller{}, "k", why); err == nil {
				require.GreaterOrEqual(t, s.LeaseLeft, time.Duration(0))
				again, err := FromStory(model.Caller{}, "k", ToStory(s))
				require.NoError(t, err)
				require.Equal(t, s.When, again.When)
			}
		}
		plan := new(masterv1.CopyStartResponse)
		if proto.Unmarshal(b, plan) == nil {
			if p, err := FromPlan(plan); err == nil {
				require.NotZero(t, p.Source.Size)
			}
		}
		task := new(masterv1.QueryTaskResponse)
		if proto.Unmarshal(b, task) == nil {
			if got, err := FromTask(model.TaskID{Lo: 1}, task); err == nil {
				require.LessOrEqual(t, got.Spec.Kind, model.MoveObject)
			}
		}
		fetched := new(masterv1.FetchTasksResponse)
		if proto.Unmarshal(b, fetched) == nil {
			if got, err := FromAssignments(int(n), fetched.GetTasks()); err == nil {
				require.LessOrEqual(t, len(got), int(n))
			}
		}
	})
}
