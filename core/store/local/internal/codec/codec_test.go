package codec

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
	localv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/local/v1"
)

func id(t *rapid.T) model.UUID {
	return model.UUID{Hi: rapid.Uint64().Draw(t, "hi"), Lo: rapid.Uint64().Draw(t, "lo")}
}

func part(t *rapid.T) model.Part {
	return model.Part{SegmentID: id(t), Segment: rapid.String().Draw(t, "segment"), Endpoint: "e", Protocol: "tcp", Address: rapid.Uint64().Draw(t, "at"), Size: rapid.Uint64().Draw(t, "size")}
}

// TestThereAndBack: what goes through a message comes out as it was.
func TestThereAndBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := model.Object{Size: rapid.Uint64().Draw(t, "bytes"), LeaseTTL: time.Duration(rapid.Int64().Draw(t, "lease")), Checksum: model.Checksum{Kind: 1, Value: rapid.Uint64().Draw(t, "sum")}}
		for range rapid.IntRange(0, 3).Draw(t, "copies") {
			r := model.Replica{ID: rapid.Uint64().Draw(t, "id"), Status: model.ReplicaComplete, Part: part(t)}
			for range rapid.IntRange(0, 2).Draw(t, "more") {
				r.More = append(r.More, part(t))
			}
			o.Replicas = append(o.Replicas, r)
		}
		require.Equal(t, o, ObjectIn(over(t, ObjectOut(o))))

		ttl := time.Duration(rapid.Int64().Draw(t, "ttl"))
		c := model.ReplicateConfig{
			Upsert: rapid.Bool().Draw(t, "upsert"), ReplicaNum: rapid.Uint32().Draw(t, "n"), PreferredSegments: []string{"s"}, SameNode: rapid.Bool().Draw(t, "same"),
			SoftPin: model.SoftPin{Action: model.SoftPinEnable, TTL: &ttl}, HardPin: rapid.Bool().Draw(t, "hard"), DataType: model.DataTensor,
		}
		require.Equal(t, c, ReplicateIn(over(t, ReplicateOut(c))))
		c.SoftPin = model.SoftPin{}
		require.Equal(t, c, ReplicateIn(over(t, ReplicateOut(c))))

		k := model.Task{ID: id(t), Status: model.TaskFailed, Assigned: id(t), Message: "m", Created: time.Unix(1, 2), Updated: time.Unix(3, 4),
			Spec: model.TaskSpec{Kind: model.MoveObject, Key: "k\xff", Source: "s", Targets: []string{"t"}}}
		require.Equal(t, k, TaskIn(over(t, TaskOut(k))))

		var refs []Ref
		for range rapid.IntRange(0, 5).Draw(t, "refs") {
			refs = append(refs, Ref{rapid.Uint64().Draw(t, "region"), rapid.Uint64().Draw(t, "offset"), rapid.Uint64().Draw(t, "length")})
		}
		got, err := RefsIn(over(t, RefsOut(refs)))
		require.NoError(t, err)
		require.Equal(t, append([]Ref{}, refs...), got)
	})
}

// over sends a message.
func over[M proto.Message](t *rapid.T, m M) M {
	b, err := proto.Marshal(m)
	require.NoError(t, err)
	out := m.ProtoReflect().New().Interface().(M)
	require.NoError(t, proto.Unmarshal(b, out))
	return out
}

func TestErrors(t *testing.T) {
	in := []error{nil, errs.New(errs.ObjectNotFound, "op", "gone"), nil}
	m := ErrorsOut(3, func(i int) error { return in[i] })
	require.Len(t, m, 1)
	var got [3]error
	require.NoError(t, ErrorsIn(3, m, func(i int, err error) { got[i] = err }))
	require.NoError(t, got[0])
	require.Equal(t, errs.ObjectNotFound, errs.CodeOf(got[1]))
	require.Error(t, ErrorsIn(1, m, func(int, error) { t.Fatal("item 1 of 1") }))
	require.NoError(t, ErrorsIn(1, []*localv1.ItemError{{}}, func(_ int, err error) { got[0] = err }))
	require.Equal(t, errs.Internal, errs.CodeOf(got[0]), "a failure without a reason stays one")
}

// FuzzRequest: whatever a message says, each item gets its own pieces in order, or the call is
// refused.
func FuzzRequest(f *testing.F) {
	b, _ := proto.Marshal(&localv1.GetRequest{Keys: [][]byte{{1}, {2}}, Parts: []uint32{1, 2}, Refs: RefsOut([]Ref{{1, 2, 3}, {4, 5, 6}, {7, 8, 9}})})
	f.Add(b)
	f.Fuzz(func(t *testing.T, in []byte) {
		var m localv1.GetRequest
		if proto.Unmarshal(in, &m) != nil {
			return
		}
		refs, err := RefsIn(m.GetRefs())
		if err != nil {
			require.Equal(t, errs.InvalidParams, errs.CodeOf(err))
			return
		}
		next := 0
		err = Share(m.GetParts(), len(m.GetKeys()), len(refs), func(i, lo, hi int) {
			require.True(t, lo == next && hi >= lo && hi <= len(refs), "%d: [%d, %d) after %d", i, lo, hi, next)
			next = hi
		})
		if err == nil {
			require.Equal(t, []int{len(refs), len(m.GetKeys())}, []int{next, len(m.GetParts())})
		}
	})
}
