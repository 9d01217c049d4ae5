package master_test

import (
	"fmt"
	"github.com/mooncake-go/mooncake/core/model"
	"testing"
)

func benchRig(b *testing.B, n int) (*rig, []string) {
	r := startReal(b, nil, 4*n, 4*n)
	keys := names("page", 0, n)
	return r, keys
}

const batch = 256

func BenchmarkPutBatch(b *testing.B) {
	r, keys := benchRig(b, batch)
	b.ReportAllocs()
	for b.Loop() {
		r.put(keys...)
		b.StopTimer()
		r.remove(true, keys...)
		b.StartTimer()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/batch, "ns/key")
}

func BenchmarkGetBatch(b *testing.B) {
	r, keys := benchRig(b, batch)
	r.put(keys...)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if got, err := r.GetReplicas(r.ctx, model.Caller{}, keys, nil); err != nil || got[0].Err != nil {
				b.Error(err)
			}
		}
	})
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/batch, "ns/key")
}

func BenchmarkExistBatch(b *testing.B) {
	r, keys := benchRig(b, batch)
	r.put(keys...)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if got, err := r.Exist(r.ctx, model.Caller{}, keys); err != nil || !got[0].Value {
				b.Error(err)
			}
		}
	})
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/batch, "ns/key")
}

func BenchmarkPutBatchWithEviction(b *testing.B) {
	r := startReal(b, noLease, 2*batch, 2*batch)
	i := 0
	b.ReportAllocs()
	for b.Loop() {
		i++
		r.put(names(fmt.Sprintf("p%d-", i), 0, batch)...)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/batch, "ns/key")
}
