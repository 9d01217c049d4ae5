package calls

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

const batch = 128

// hot is a call of a client as the master sees it: it decodes a request and encodes a response.
type hot struct {
	name   string
	serve  func(out []byte) ([]byte, error)
	allocs float64 // the most that serve makes
}

func serving[Q, R any](name string, call *Call[Q, R], v Version, q Q, r R, allocs float64) hot {
	body, err := call.AppendRequest(nil, v, &q)
	if err != nil {
		panic(err)
	}
	return hot{name, func(out []byte) ([]byte, error) {
		var q Q
		versions, err := call.DecodeRequest(body, &q)
		if err != nil {
			return nil, err
		}
		return call.AppendResponse(out, versions.Newest(), &r)
	}, allocs}
}

func repeat[T any](n int, v T) []T {
	list := make([]T, n)
	for i := range list {
		list[i] = v
	}
	return list
}

// hotCalls are the calls of a batch of keys, and of one key. They copy the strings once, those that
// start puts each, and allocate each list once; a request that is passed to a walk is on the heap.
func hotCalls() []hot {
	keys := make([]string, batch)
	objects := make([]ObjectMeta, batch)
	for i := range keys {
		keys[i] = fmt.Sprintf("model/layer-%02d/page-%08d", i%32, i)
		objects[i].Key = keys[i]
	}
	sizes := repeat(batch, uint64(1<<20))
	client := model.NewUUID()
	where := []Descriptor{vectorMemory}
	list := ReplicaList{Replicas: where, LeaseTTL: 5000}
	return []hot{
		serving("ExistKey", ExistKey, V13, ExistKeyRequest{keys[0], "default"}, ok(true), 2),
		serving("BatchExistKey", BatchExistKey, V13, BatchExistKeyRequest{keys, "default"}, repeat(batch, ok(true)), 3),
		serving("GetReplicaList", GetReplicaList, V13, ExistKeyRequest{keys[0], "default"}, ok(list), 2),
		serving("BatchGetReplicaList", BatchGetReplicaList, V13, BatchExistKeyRequest{keys, "default"}, repeat(batch, ok(list)), 3),
		serving("PutStart", PutStart, V13, PutStartRequest{client, keys[0], 1 << 20, vectorConfig, "default"}, ok(where), 4),
		serving("PutEnd", PutEnd, V13, PutEndRequest{client, objects[0], TypeAll, "default"}, fail[Void](errs.ObjectNotFound), 2),
		serving("BatchPutStart", BatchPutStart, V13, BatchPutStartRequest{client, keys, sizes, vectorConfig, "default"}, repeat(batch, ok(where)), batch+5),
		serving("BatchPutEnd", BatchPutEnd, V13, BatchPutEndRequest{client, objects, TypeAll, "default"}, repeat(batch, ok(Void{})), 4),
	}
}

func TestAllocations(t *testing.T) {
	for _, h := range hotCalls() {
		out := make([]byte, 0, 64<<10)
		require.LessOrEqual(t, testing.AllocsPerRun(100, func() {
			if _, err := h.serve(out[:0]); err != nil {
				t.Fatal(err)
			}
		}), h.allocs, h.name)
	}
}

func BenchmarkServe(b *testing.B) {
	for _, h := range hotCalls() {
		b.Run(h.name, func(b *testing.B) {
			out := make([]byte, 0, 64<<10)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := h.serve(out[:0]); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
