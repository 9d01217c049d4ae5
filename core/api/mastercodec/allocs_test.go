package mastercodec

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/mooncake-go/mooncake/core/internal/testkit/scaling"
	masterv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/master/v1"
)

// batch is how many keys the messages below have.
const batch = 128

func messages() []proto.Message {
	keys := make([][]byte, batch)
	for i := range keys {
		keys[i] = fmt.Appendf(nil, "%040d", i)
	}
	caller := &masterv1.Caller{Client: &masterv1.UUID{Hi: 1, Lo: 2}}
	numbers := make([]uint64, batch)
	small := make([]uint32, batch)
	ones := make([]uint32, batch)
	for i := range numbers {
		numbers[i], ones[i] = uint64(i)<<20, 1
	}
	replicas := &masterv1.Replicas{
		Places: []*masterv1.Place{{Segment: &masterv1.UUID{Hi: 1}, Name: "n:1", Endpoint: "n:1", Protocol: "tcp"}},
		Counts: ones, Ids: numbers, Place: small, Addresses: numbers, Sizes: numbers, Statuses: make([]int32, batch),
	}
	return []proto.Message{
		&masterv1.ExistRequest{Keys: keys, Caller: caller},
		&masterv1.ExistResponse{Exist: make([]bool, batch)},
		&masterv1.GetReplicasRequest{Keys: keys, Caller: caller},
		&masterv1.GetReplicasResponse{Replicas: replicas, Sizes: numbers, ChecksumKinds: ones, Checksums: numbers, LeaseTtlsUs: numbers},
		&masterv1.PutStartRequest{Caller: caller, Keys: keys, Sizes: numbers, Config: &masterv1.ReplicateConfig{ReplicaNum: 1}},
		&masterv1.PutStartResponse{Replicas: replicas},
		&masterv1.PutEndRequest{Caller: caller, Keys: keys, ChecksumKinds: ones, Checksums: numbers, Puts: numbers},
		&masterv1.PutEndResponse{},
		&masterv1.RemoveRequest{Keys: keys, Force: true, Caller: caller},
		&masterv1.RemoveResponse{},
	}
}

// TestAllocations: an allocation a column, none where one is read again, and none to write. The keys of a PutStart have
// one each, so that the master can keep one without the others.
func TestAllocations(t *testing.T) {
	for _, m := range messages() {
		b, err := Codec{}.Append(nil, m)
		require.NoError(t, err)
		into := fresh(m)
		read := testing.AllocsPerRun(100, func() { require.NoError(t, Codec{}.Decode(b, into)) })
		if _, ok := m.(*masterv1.PutStartRequest); ok {
			assert.GreaterOrEqual(t, read, float64(batch))
			read -= batch
		}
		most := 17.0
		if _, ok := m.(*masterv1.GetReplicasResponse); ok {
			most = 7 // The place and the list of places: its columns have their memory.
		}
		assert.LessOrEqual(t, read, most, "%T is read", m)
		assert.LessOrEqual(t, testing.AllocsPerRun(100, func() { b, _ = Codec{}.Append(b[:0], m) }), 0.0, "%T is written", m)
	}
}

// TestNoGarbage: answers that are read into the same message again take no memory.
func TestNoGarbage(t *testing.T) {
	c := Codec{Places: &Places{}}
	for _, m := range messages() {
		switch m.(type) {
		case *masterv1.GetReplicasResponse, *masterv1.PutStartResponse, *masterv1.PutEndResponse:
			b, err := c.Append(nil, m)
			require.NoError(t, err)
			into := fresh(m)
			require.Zero(t, testing.AllocsPerRun(100, func() { require.NoError(t, c.Decode(b, into)) }), "%T", m)
		}
	}
}

// BenchmarkScaling is what the codec costs on all processors at once, where all threads share the places of replicas.
func BenchmarkScaling(b *testing.B) {
	c := Codec{Places: &Places{}}
	for _, m := range messages() {
		b.Run(string(m.ProtoReflect().Descriptor().Name()), func(b *testing.B) {
			scaling.Run(b, func(more func() bool) error {
				into, out := fresh(m), []byte(nil)
				for more() {
					var err error
					if out, err = c.Append(out[:0], m); err != nil {
						return err
					}
					if err = c.Decode(out, into); err != nil {
						return err
					}
				}
				return nil
			})
		})
	}
}

func BenchmarkCodec(b *testing.B) {
	for _, m := range messages() {
		wire, err := proto.Marshal(m)
		require.NoError(b, err)
		into, out := fresh(m), make([]byte, 0, len(wire))
		for name, c := range map[string]struct {
			decode func([]byte, proto.Message) error
			append func([]byte, proto.Message) ([]byte, error)
		}{
			"here":  {Codec{}.Decode, Codec{}.Append},
			"proto": {proto.Unmarshal, proto.MarshalOptions{}.MarshalAppend},
		} {
			kind := fmt.Sprintf("%s/%s", m.ProtoReflect().Descriptor().Name(), name)
			b.Run("Decode/"+kind, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if err := c.decode(wire, into); err != nil {
						b.Fatal(err)
					}
				}
			})
			b.Run("Append/"+kind, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if _, err := c.append(out, m); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
