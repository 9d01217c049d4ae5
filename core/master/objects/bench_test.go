package objects

import (
	"fmt"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/mooncake-go/mooncake/core/internal/testkit/scaling"
	"github.com/mooncake-go/mooncake/core/model"
)

// BenchmarkTable is what one object costs the table, without allocator and policy, whose
// events are thrown away as the master hands them on: in batches.
func BenchmarkTable(b *testing.B) {
	for _, n := range []int{1_000, 1_000_000} {
		b.Run(fmt.Sprintf("objects=%d", n), func(b *testing.B) { benchTable(b, n) })
	}
}

func benchTable(b *testing.B, n int) {
	r := newRig(b)
	keys := make([]string, n)
	key := func(i int) string { return "a page of a conversation, " + strconv.Itoa(i) }
	for i := range keys {
		r.put(key(i), Settings{}, 0)
	}
	for i := range keys {
		keys[i] = key(i) // A caller has keys of its own, which do not lie beside those of the table.
	}
	var events DrainBuffer
	r.Drain(&events)
	each := func(b *testing.B, do func(key string)) {
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			if i%256 == 0 {
				r.Drain(&events)
			}
			do(keys[i%n])
		}
	}
	b.Run("exist", func(b *testing.B) {
		each(b, func(key string) {
			if _, ok := r.Exist(key, Grant{Probe: second}); !ok {
				b.Fatal(key, "is gone")
			}
		})
	})
	b.Run("read", func(b *testing.B) {
		var buf []model.Replica
		each(b, func(key string) {
			var out Outcome
			if _, buf, _, out = r.Read(key, Grant{Lease: second, Rank: true}, buf[:0]); out != Done {
				b.Fatal(key, out)
			}
		})
	})
	b.Run("turnover", func(b *testing.B) { // one object goes, and is put again
		var bin Bin
		var dst []model.Replica
		copies := r.at(8, 0)
		each(b, func(key string) {
			if out := r.Remove(key, 2*second, true, &bin); out != Done {
				b.Fatal(key, out)
			}
			bin = Bin{}
			var out Outcome
			if dst, out = r.Put(&NewObject{Key: key, Size: 8, Client: r.client, Copies: copies}, 1, patience, dst[:0], &bin); out != Done {
				b.Fatal(key, out)
			}
			if _, _, out := r.Finish(key, 0, r.client, model.Checksum{}, 1, 0); out != Done {
				b.Fatal(key, out)
			}
		})
	})
}

// BenchmarkScaling is what calls on all processors cost at once, each on keys of its own, with a thread that hands events on.
func BenchmarkScaling(b *testing.B) {
	const n = 1 << 17
	r := newRig(b)
	keys := make([]string, n)
	for i := range keys {
		keys[i] = "a page of a conversation, " + strconv.Itoa(i)
		r.put(keys[i], Settings{}, 0)
	}
	var events DrainBuffer
	var mu sync.Mutex // of events
	drain := func() {
		if mu.TryLock() {
			r.Drain(&events)
			mu.Unlock()
		}
	}
	drain()
	var next atomic.Uint32
	each := func(do func(key string) Outcome) func(more func() bool) error {
		return func(more func() bool) error {
			for i := int(next.Add(1)) * (n / 64); more(); i++ {
				if out := do(keys[i%n]); out != Done {
					return fmt.Errorf("%s: outcome %d", keys[i%n], out)
				}
				if i%256 == 0 {
					drain()
				}
			}
			return nil
		}
	}
	b.Run("exist", func(b *testing.B) {
		scaling.Run(b, each(func(key string) Outcome {
			if _, ok := r.Exist(key, Grant{Probe: second}); !ok {
				return Missing
			}
			return Done
		}))
	})
	b.Run("read", func(b *testing.B) {
		scaling.Run(b, each(func(key string) Outcome {
			var buf [1]model.Replica
			_, _, _, out := r.Read(key, Grant{Lease: 1, Rank: true}, buf[:0])
			return out
		}))
	})
	b.Run("turnover", func(b *testing.B) {
		scaling.Run(b, each(func(key string) Outcome { // Another thread may be at the same key.
			var bin Bin
			r.Remove(key, 2*second, true, &bin)
			if _, out := r.Put(&NewObject{Key: key, Size: 8, Client: r.client, Copies: r.at(8, 0)}, 1, patience, nil, &bin); out != Done {
				if out == Exists {
					out = Done
				}
				return out
			}
			r.Finish(key, 0, r.client, model.Checksum{}, 1, 0)
			return Done
		}))
	})
}

// BenchmarkMemory is what objects take of the heap that lie in memory, on a storage tier, or both, without the key and what the
// index takes.
func BenchmarkMemory(b *testing.B) {
	const n = 1 << 18
	for at, name := range []string{"memory", "memory and tier", "tier"} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				r := newTierRig(b)
				r.Reserve(n)
				keys := make([]string, n)
				for i := range keys {
					keys[i] = "a page of a conversation, " + strconv.Itoa(i)
				}
				var events DrainBuffer
				before := heap()
				for i, key := range keys {
					id := r.put(key, Settings{}, 0)
					if at > 0 {
						r.copied(key, 0, 1)
					}
					if at > 1 {
						r.Evict(id, second, Rules{}, false, &Bin{}, nil)
					}
					if i%256 == 0 {
						r.Drain(&events)
					}
				}
				r.Drain(&events)
				r.Shrink(&events)
				stored := 0 // The table has copies.
				for _, key := range keys {
					stored += len(key)
				}
				b.ReportMetric(float64(heap()-before-uint64(stored))/n, "B/object")
				runtime.KeepAlive(keys)
				runtime.KeepAlive(r.Table)
			}
		})
	}
}

func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
