package mastercodec

import (
	"bytes"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	masterv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/master/v1"
)

// FuzzDecode reads bytes as each message here and by package proto.
func FuzzDecode(f *testing.F) {
	replicas := &masterv1.Replicas{
		Places: []*masterv1.Place{{Segment: &masterv1.UUID{Hi: 1}, Name: "n:1"}}, Counts: []uint32{1, 0}, Ids: []uint64{1 << 40},
		Place: []uint32{0}, Addresses: []uint64{1 << 47}, Sizes: []uint64{1}, Statuses: []int32{-3},
	}
	caller := &masterv1.Caller{Client: &masterv1.UUID{Hi: 1, Lo: 2}, Tenant: "t"}
	keys := [][]byte{[]byte("key"), {}, bytes.Repeat([]byte{7}, 200)}
	failed := []*masterv1.ItemError{{Index: 2}}
	for i, m := range []proto.Message{
		&masterv1.ExistRequest{Keys: keys, Caller: caller},
		&masterv1.ExistResponse{Exist: []bool{true, false}, Errors: failed},
		&masterv1.GetReplicasRequest{Keys: keys, Caller: caller, Grains: true},
		&masterv1.GetReplicasResponse{Replicas: replicas, Sizes: []uint64{1, 300}, ChecksumKinds: []uint32{1, 0}, Checksums: []uint64{1, 2}, LeaseTtlsUs: []uint64{5, 6}, Errors: failed, GrainCounts: []uint32{2, 0}, Grains: []uint32{1, 1 << 31}},
		&masterv1.PutStartRequest{Caller: caller, Keys: keys, Sizes: []uint64{1, 2, 3}, Config: &masterv1.ReplicateConfig{ReplicaNum: 1}, Groups: []string{"", "g"}},
		&masterv1.PutStartResponse{Replicas: replicas, Errors: failed},
		&masterv1.PutEndRequest{Caller: caller, Keys: keys, ChecksumKinds: []uint32{1}, Checksums: []uint64{1}, Puts: []uint64{1 << 63}, GrainCounts: []uint32{0, 300}, Grains: []uint32{7}},
		&masterv1.PutEndResponse{Errors: failed},
		&masterv1.RemoveRequest{Keys: keys, Force: true, Caller: caller},
		&masterv1.RemoveResponse{},
	} {
		b, err := proto.Marshal(m)
		require.NoError(f, err)
		f.Add(uint8(i), b)
		f.Add(uint8(i), b[:len(b)/2])
	}
	f.Fuzz(func(t *testing.T, kind uint8, b []byte) {
		m := columns[int(kind)%len(columns)]
		readsTheSame(t, b, m)
		got := fresh(m)
		if (Codec{}).Decode(b, got) != nil {
			return
		}
		again, err := Codec{}.Append(nil, got)
		require.NoError(t, err)
		readsTheSame(t, again, m)
		want, err := proto.Marshal(got)
		require.NoError(t, err)
		require.True(t, bytes.Equal(want, again), "%x\n%x", want, again)
	})
}

// TestHostileLengthsTakeNoMemory: what a few bytes claim to hold is not allocated for.
func TestHostileLengthsTakeNoMemory(t *testing.T) {
	huge := protowire.AppendVarint(nil, 1<<40)
	for _, kind := range columns {
		for field := byte(1); field < 9; field++ {
			for _, head := range [][]byte{nil, {block1, 1, 'k'}} {
				b := append(append(append([]byte{}, head...), field<<3|byte(protowire.BytesType)), huge...)
				var err error
				assert.Less(t, allocated(func() { err = Codec{}.Decode(b, fresh(kind)) }), uint64(1<<20), "%T, field %d", kind, field)
				assert.Error(t, err, "%T, field %d", kind, field)
			}
		}
	}
}

// TestManyEmptyKeys: what a message can take at most beside its own size is a slice header
// for two bytes.
func TestManyEmptyKeys(t *testing.T) {
	const n = 1 << 18
	b := bytes.Repeat([]byte{block1, 0}, n)
	m := &masterv1.ExistRequest{}
	used := allocated(func() { require.NoError(t, Codec{}.Decode(b, m)) })
	assert.Len(t, m.GetKeys(), n)
	assert.LessOrEqual(t, used, uint64(2*24*n))
}

// allocated is how many bytes f allocates, or a little more.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}
