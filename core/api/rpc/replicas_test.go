package rpc

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	masterv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/master/v1"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

func TestMalformedAnswersAreRefused(t *testing.T) {
	one := func() *masterv1.GetReplicasResponse {
		return wireObjects([]model.Result[model.Object]{{Value: model.Object{Size: 1, Replicas: []model.Replica{{ID: 1, Part: model.Part{Endpoint: "e", Size: 1}}}}}})
	}
	_, err := goObjects(1, one(), &model.Answer[model.Object]{})
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
		"no bytes":          func(m *masterv1.GetReplicasResponse) { m.Replicas.Sizes[0] = 0 },
		"past the end":      func(m *masterv1.GetReplicasResponse) { m.Replicas.Addresses[0], m.Replicas.Sizes[0] = 1<<64-1, 2 },
		"replicas left out": func(m *masterv1.GetReplicasResponse) { m.Replicas = nil },
	} {
		m := one()
		spoil(m)
		_, err := goObjects(1, m, &model.Answer[model.Object]{})
		assert.Equal(t, errs.DeserializeFail, errs.CodeOf(err), name)
	}
}

func TestStripedCopiesAreRowsOfOneID(t *testing.T) {
	part := func(name string, size uint64) model.Part {
		return model.Part{Segment: name, SegmentID: model.UUID{Lo: size}, Endpoint: name, Address: 1, Size: size}
	}
	striped := model.Replica{ID: 7, Status: model.ReplicaComplete, Part: part("a", 4), More: []model.Part{part("b", 4), part("a", 2)}}
	one := func() *masterv1.PutStartResponse {
		return wireAllocations([]model.Result[[]model.Replica]{
			{Value: []model.Replica{striped, {ID: 8, Part: part("a", 10)}}},
			{Value: []model.Replica{{ID: 8, Part: part("c", 3)}}},
		})
	}
	m := one()
	assert.Equal(t, []uint32{4, 1}, m.Replicas.Counts)
	assert.Len(t, m.Replicas.Places, 5)
	back, err := goAllocations(2, m, &model.Answer[[]model.Replica]{})
	require.NoError(t, err)
	assert.Equal(t, striped, back[0].Value[0])
	assert.Nil(t, back[0].Value[1].More)
	assert.Len(t, back[1].Value, 1, "the copies of two objects may have one ID")

	for name, spoil := range map[string]func(*masterv1.Replicas){
		"two statuses": func(r *masterv1.Replicas) { r.Statuses[1] = 0 },
		"no bytes":     func(r *masterv1.Replicas) { r.Sizes[2] = 0 },
		"too large": func(r *masterv1.Replicas) {
			r.Addresses, r.Sizes = make([]uint64, 5), []uint64{1 << 63, 1 << 63, 1, 1, 1}
		},
	} {
		m := one()
		spoil(m.Replicas)
		_, err := goAllocations(2, m, &model.Answer[[]model.Replica]{})
		assert.Equal(t, errs.DeserializeFail, errs.CodeOf(err), name)
	}
}

func TestReplicasSurviveTheWire(t *testing.T) {
	parts := rapid.Custom(func(t *rapid.T) model.Part {
		return model.Part{
			SegmentID: model.UUID{Lo: rapid.Uint64Range(0, 2).Draw(t, "segment")}, Segment: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "name"),
			Protocol: "tcp", Address: rapid.Uint64Range(0, 1<<50).Draw(t, "address"), Size: rapid.Uint64Range(1, 1<<50).Draw(t, "size"),
		}
	})
	rapid.Check(t, func(t *rapid.T) {
		id := uint64(0)
		items := rapid.SliceOfN(rapid.SliceOfN(rapid.Custom(func(t *rapid.T) model.Replica {
			id++
			all := rapid.SliceOfN(parts, 1, 4).Draw(t, "parts")
			r := model.Replica{ID: id, Status: model.ReplicaStatus(rapid.Int32().Draw(t, "status")), Part: all[0]}
			if len(all) > 1 {
				r.More = all[1:]
			}
			return r
		}), 0, 3), 0, 5).Draw(t, "items")
		rows := 0
		for _, l := range items {
			rows += rowsOf(l)
		}
		w := newReplicaWriter(len(items), rows)
		for _, l := range items {
			w.add(l)
		}
		require.Len(t, w.out.Ids, rows)
		got := make([][]model.Replica, len(items))
		require.NoError(t, readReplicas(len(items), w.out, func(i int, l []model.Replica) { got[i] = l }))
		for i := range items {
			if len(items[i]) == 0 {
				require.Nil(t, got[i])
				continue
			}
			require.Equal(t, items[i], got[i])
			// The lists share their memory, but none can grow into the next.
			for _, r := range got[i] {
				require.Equal(t, len(r.More), cap(r.More))
			}
			require.Equal(t, len(got[i]), cap(got[i]))
		}
	})
}
