package rpc

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	masterv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/master/v1"
	pluginv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/plugin/v1"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

func TestMalformedAnswersAreRefused(t *testing.T) {
	one := func() *masterv1.GetReplicasResponse {
		return wireObjects([]model.Result[model.Object]{{Value: model.Object{Size: 1, Replicas: []model.Replica{{ID: 1, Endpoint: "e"}}}}})
	}
	_, err := goObjects(1, one())
	require.NoError(t, err)
	for name, spoil := range map[string]func(*masterv1.GetReplicasResponse){
		"no sizes":          func(m *masterv1.GetReplicasResponse) { m.Sizes = nil },
		"checksum kind":     func(m *masterv1.GetReplicasResponse) { m.ChecksumKinds[0] = 256 },
		"count too high":    func(m *masterv1.GetReplicasResponse) { m.Replicas.Counts[0] = 2 },
		"count wraps":       func(m *masterv1.GetReplicasResponse) { m.Replicas.Counts[0] = 1<<32 - 1 },
		"no counts":         func(m *masterv1.GetReplicasResponse) { m.Replicas.Counts = nil },
		"place outside":     func(m *masterv1.GetReplicasResponse) { m.Replicas.Place[0] = 1 },
		"short column":      func(m *masterv1.GetReplicasResponse) { m.Replicas.Addresses = nil },
		"error of item 1":   func(m *masterv1.GetReplicasResponse) { m.Errors = []*masterv1.ItemError{{Index: 1}} },
		"replicas left out": func(m *masterv1.GetReplicasResponse) { m.Replicas = nil },
	} {
		m := one()
		spoil(m)
		_, err := goObjects(1, m)
		assert.Equal(t, errs.DeserializeFail, errs.CodeOf(err), name)
	}
}

func TestLeaseIsRoundedDown(t *testing.T) {
	m := wireObjects([]model.Result[model.Object]{{Value: model.Object{LeaseTTL: 1999 * time.Nanosecond}}, {Value: model.Object{LeaseTTL: -1}}})
	out, err := goObjects(2, m)
	require.NoError(t, err)
	assert.Equal(t, time.Microsecond, out[0].Value.LeaseTTL)
	assert.Zero(t, out[1].Value.LeaseTTL)
	m.LeaseTtlsUs[0] = 1<<64 - 1
	out, err = goObjects(2, m)
	require.NoError(t, err)
	assert.Positive(t, out[0].Value.LeaseTTL)
}

func TestErrorsThatAreNone(t *testing.T) {
	for _, code := range []int32{0, 5} {
		err := goError(&pluginv1.Error{Code: code, Class: 99})
		assert.Equal(t, errs.Internal, errs.CodeOf(err))
		assert.Equal(t, errs.ClassUnknown, errs.ClassOf(err))
		assert.NotEmpty(t, err.Error())
	}
	assert.Equal(t, errs.Code(-4242), errs.CodeOf(goError(&pluginv1.Error{Code: -4242})), "a newer side's code is kept")
	assert.Equal(t, int32(errs.Internal), wireError(&errs.Error{Code: errs.OK}).GetCode())
	assert.Less(t, len(wireError(errs.New(errs.Internal, "x", "%01000000d", 1)).GetMessage()), 2048)
}

func TestEveryCodeHasAGRPCCode(t *testing.T) {
	for _, c := range errs.Codes() {
		if c != errs.OK {
			assert.NotEqual(t, codes.OK, toGRPC(c), c)
		}
	}
	for g := codes.Canceled; g <= codes.Unauthenticated; g++ {
		assert.Negative(t, int(fromGRPC(g)), g)
	}
}

func TestOtherProtocolIsRefused(t *testing.T) {
	assert.NoError(t, checkProtocol("ready", "1", "2", &masterv1.Protocol{Major: ProtocolMajor, Minor: 9}))
	for _, p := range []*masterv1.Protocol{nil, {Major: ProtocolMajor + 1, Minor: 3}} {
		err := checkProtocol("ready", "ours", "theirs", p)
		assert.ErrorIs(t, err, errs.InvalidVersion.Err())
		assert.ErrorContains(t, err, `"ours"`)
		assert.ErrorContains(t, err, `"theirs"`)
	}
}

func TestOversizedBatchIsRefused(t *testing.T) {
	keys := make([][]byte, maxItems+1)
	_, err := goKeys(keys)
	assert.Equal(t, errs.InvalidParams, errs.CodeOf(err))
	_, _, err = goPutStart(&masterv1.PutStartRequest{Keys: keys})
	assert.Equal(t, errs.InvalidParams, errs.CodeOf(err))
	_, err = goPutEnd(&masterv1.PutEndRequest{Keys: keys})
	assert.Equal(t, errs.InvalidParams, errs.CodeOf(err))
}

// FuzzRequest decodes bytes as each request with columns and turns what passes back into
// a message, which must be the same.
func FuzzRequest(f *testing.F) {
	add := func(m proto.Message) {
		b, err := proto.Marshal(m)
		require.NoError(f, err)
		f.Add(b)
	}
	add(wirePutStart(model.UUID{Hi: 1}, []model.PutItem{{Key: "a", Size: 1}, {Key: "\xff", Size: 1 << 63}}, model.ReplicateConfig{ReplicaNum: 2, PreferredSegments: []string{"s"}}))
	add(wirePutEnd(model.UUID{Lo: 1}, []model.EndItem{{Key: "a", Checksum: model.Checksum{Kind: 1, Value: 7}, Put: 3}}))
	add(wirePutRevoke(model.UUID{Lo: 1}, []model.RevokeItem{{Key: "a", Put: 1 << 63}}))
	add(&masterv1.RemountSegmentsRequest{Client: wireUUID(model.UUID{Lo: 2}), Segments: []*masterv1.Segment{wireSegment(model.Segment{Name: "n", Size: 3})}})
	f.Fuzz(func(t *testing.T, b []byte) {
		start := new(masterv1.PutStartRequest)
		if proto.Unmarshal(b, start) == nil {
			if items, cfg, err := goPutStart(start); err == nil {
				again := wirePutStart(goUUID(start.GetClient()), items, cfg)
				back, _, err := goPutStart(again)
				require.NoError(t, err)
				require.Equal(t, items, back)
			}
		}
		end := new(masterv1.PutEndRequest)
		if proto.Unmarshal(b, end) == nil {
			if items, err := goPutEnd(end); err == nil {
				back, err := goPutEnd(wirePutEnd(goUUID(end.GetClient()), items))
				require.NoError(t, err)
				require.Equal(t, items, back)
			}
		}
		revoke := new(masterv1.PutRevokeRequest)
		if proto.Unmarshal(b, revoke) == nil {
			if items, err := goPutRevoke(revoke); err == nil {
				back, err := goPutRevoke(wirePutRevoke(goUUID(revoke.GetClient()), items))
				require.NoError(t, err)
				require.Equal(t, items, back)
			}
		}
		re := new(masterv1.RemountSegmentsRequest)
		if proto.Unmarshal(b, re) == nil {
			for _, s := range mapSlice(re.GetSegments(), goSegment) {
				require.Equal(t, s, goSegment(wireSegment(s)))
			}
		}
	})
}

// FuzzAnswer decodes bytes as each answer with columns.
func FuzzAnswer(f *testing.F) {
	b, err := proto.Marshal(wireObjects([]model.Result[model.Object]{
		{Value: model.Object{Size: 4, LeaseTTL: time.Second, Replicas: []model.Replica{{ID: 1, Segment: "s"}, {ID: 2, Segment: "t"}}}},
		{Err: errs.ObjectNotFound.Err()},
	}))
	require.NoError(f, err)
	f.Add(uint8(2), b)
	b, err = proto.Marshal(wireAllocations([]model.Result[[]model.Replica]{{Value: []model.Replica{{ID: 1}}}}))
	require.NoError(f, err)
	f.Add(uint8(1), b)
	f.Fuzz(func(t *testing.T, n uint8, b []byte) {
		get := new(masterv1.GetReplicasResponse)
		if proto.Unmarshal(b, get) == nil {
			if out, err := goObjects(int(n), get); err == nil {
				require.Len(t, out, int(n))
			}
		}
		put := new(masterv1.PutStartResponse)
		if proto.Unmarshal(b, put) == nil {
			if out, err := goAllocations(int(n), put); err == nil {
				require.Len(t, out, int(n))
			}
		}
	})
}

func TestPutsAreAColumnThatOldClientsLeaveOut(t *testing.T) {
	keys := [][]byte{[]byte("a"), []byte("b")}
	items, err := goPutRevoke(&masterv1.PutRevokeRequest{Keys: keys})
	require.NoError(t, err)
	require.Equal(t, []model.RevokeItem{{Key: "a"}, {Key: "b"}}, items)
	ended, err := goPutEnd(&masterv1.PutEndRequest{Keys: keys, ChecksumKinds: []uint32{1, 1}, Checksums: []uint64{2, 3}, Puts: []uint64{4, 0}})
	require.NoError(t, err)
	require.Equal(t, []uint64{4, 0}, []uint64{ended[0].Put, ended[1].Put})

	_, err = goPutRevoke(&masterv1.PutRevokeRequest{Keys: keys, Puts: []uint64{1}})
	require.Equal(t, errs.DeserializeFail, errs.CodeOf(err))
	_, err = goPutEnd(&masterv1.PutEndRequest{Keys: keys, ChecksumKinds: []uint32{1, 1}, Checksums: []uint64{2, 3}, Puts: []uint64{1, 2, 3}})
	require.Equal(t, errs.DeserializeFail, errs.CodeOf(err))
}
