package store_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mooncake-go/mooncake/core/internal/testkit/memtransport"
	"github.com/mooncake-go/mooncake/core/store"
)

// TestSessionsNeverMixValues: under a transport that cuts and a master that is away at times,
// while objects are replaced, removed and evicted, all that one session reads is of one value
// that was put, and whatever can be read was put completely.
func TestSessionsNeverMixValues(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		p := newPool(t, nil)
		a := p.member("a:1", memberOptions{segments: []uint64{64 << 10}})
		c := p.member("c:1", memberOptions{})
		defer func() { c.stop(); a.stop(); p.kill() }()
		var mu sync.Mutex
		var chance, gone float64
		dice := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 1))
		roll := func(f *float64) bool {
			mu.Lock()
			defer mu.Unlock()
			return dice.Float64() < *f
		}
		c.wire.SetHook(func(memtransport.Event) memtransport.Fault {
			if roll(&chance) {
				return memtransport.Fault{Err: errCut, Partial: true}
			}
			return memtransport.Fault{}
		})
		p.master.setHook(func(k call) error {
			if k.name != "Ping" && k.name != "Ready" && roll(&gone) {
				return errDown
			}
			return nil
		})
		ctx, next := context.Background(), 0
		key := rapid.Map(rapid.IntRange(0, 3), func(i int) string { return fmt.Sprint("key", i) })
		tried := map[string]map[string]bool{} // by key
		fresh := func(t *rapid.T, k string) []byte {
			next++
			v := content(fmt.Sprint(k, "/", next), rapid.IntRange(8, 9000).Draw(t, "size"))
			if tried[k] == nil {
				tried[k] = map[string]bool{}
			}
			tried[k][string(v)] = true
			return v
		}
		seen := map[string]string{} // what open sessions read of the first 8 bytes
		rt.Repeat(map[string]func(*rapid.T){
			"put": func(t *rapid.T) {
				k := key.Draw(t, "key")
				v := fresh(t, k)
				cfg := one
				cfg.Upsert = rapid.Bool().Draw(t, "upsert")
				if c.StartPuts(ctx, []string{k}, []uint64{uint64(len(v))}, cfg, nil)[0] != nil {
					return
				}
				for at := 0; at < len(v); {
					n := min(rapid.IntRange(1, 5000).Draw(t, "piece"), len(v)-at)
					if r := c.PutRanges(ctx, []store.Ranges{write(k, at, v[at:at+n])})[0]; r.Err == nil || rapid.Bool().Draw(t, "go on") {
						at += n
					}
				}
				if c.EndPuts(ctx, []string{k})[0] != nil {
					_ = c.RevokePuts(ctx, []string{k})
				}
			},
			"remove": func(t *rapid.T) { _ = c.Remove(ctx, key.Draw(t, "key"), true) },
			"get": func(t *rapid.T) {
				k := key.Draw(t, "key")
				if v, err := c.Get(ctx, k); err == nil {
					require.True(t, tried[k][string(v)])
				}
			},
			"start": func(t *rapid.T) {
				k := key.Draw(t, "key")
				if c.StartGets(ctx, []string{k})[0] == nil {
					delete(seen, k) // It may be another value now.
				}
			},
			"read": func(t *rapid.T) {
				k := key.Draw(t, "key")
				var b [8]byte
				if c.GetRanges(ctx, []store.Ranges{read(k, 0, b[:])})[0].Err != nil {
					return
				}
				if seen[k] == "" {
					seen[k] = string(b[:])
				}
				require.Equal(t, seen[k], string(b[:]), "one session, one value")
				ok := false
				for v := range tried[k] {
					ok = ok || v[:8] == seen[k]
				}
				require.True(t, ok, "wrong bytes of %s", k)
			},
			"end": func(t *rapid.T) {
				k := key.Draw(t, "key")
				require.NoError(t, c.EndGets(ctx, []string{k}))
				delete(seen, k)
			},
			"trouble": func(t *rapid.T) {
				mu.Lock()
				defer mu.Unlock()
				chance = rapid.SampledFrom([]float64{0, 0.1, 0.4}).Draw(t, "transport")
				gone = rapid.SampledFrom([]float64{0, 0.2}).Draw(t, "master")
			},
		})
	})
}
