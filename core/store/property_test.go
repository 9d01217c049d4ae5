package store_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mooncake-go/mooncake/core/internal/testkit/memtransport"
	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/core/transfer"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// TestNeverWrongBytes is a pool under random operations, with a transport that cuts,
// corrupts, duplicates and forgets to move half of the bytes, a master that is sometimes
// away, and nodes whose memory is damaged. Reads may fail; what they return is right, and a
// key that was never put is never found.
func TestNeverWrongBytes(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		p := newPool(t, nil)
		quick := func(c *transfer.Config) { c.SliceSize, c.Window, c.CoolDown, c.MaxCoolDown = 4<<10, 16<<10, 1, 1 }
		nodes := []*member{
			p.member("a:1", memberOptions{segments: []uint64{256 << 10}, engine: quick}),
			p.member("b:1", memberOptions{segments: []uint64{256 << 10}, engine: quick}),
		}
		all := append(nodes, p.member("c:1", memberOptions{engine: quick}))
		defer func() {
			for _, m := range all {
				m.stop()
			}
			p.kill()
		}()
		var chance, gone float64
		fault := faults(&chance, rapid.Uint64().Draw(rt, "seed"))
		for _, m := range all {
			m.wire.SetHook(fault)
		}
		dice := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 1))
		var mu sync.Mutex // of dice and gone: nodes call in the background
		p.master.setHook(func(c call) error {
			if c.name == "Ping" || c.name == "Ready" { // In the background, and what brings the calls back.
				return nil
			}
			mu.Lock()
			defer mu.Unlock()
			if dice.Float64() < gone {
				return errDown
			}
			return nil
		})
		key := rapid.Map(rapid.IntRange(0, 11), func(i int) string { return fmt.Sprint("key", i) })
		size := func(k string) int { return 1 + len(content(k, 1))*int(k[len(k)-1]-'0')*3000 }
		tried := map[string]map[string]bool{} // every value that a key was ever to have
		next := 0
		try := func(k string, v []byte) []byte {
			if tried[k] == nil {
				tried[k] = map[string]bool{}
			}
			tried[k][string(v)] = true
			return v
		}
		pick := func(t *rapid.T) *member { return rapid.SampledFrom(all).Draw(t, "member") }
		ctx := context.Background()

		rt.Repeat(map[string]func(*rapid.T){
			"put": func(t *rapid.T) {
				keys := rapid.SliceOfN(key, 1, 5).Draw(t, "keys")
				values := make([][]byte, len(keys))
				for i, k := range keys {
					values[i] = try(k, content(k, size(k)))
				}
				cfg := one
				cfg.ReplicaNum = rapid.Uint32Range(1, 2).Draw(t, "copies")
				_ = pick(t).BatchPut(ctx, keys, values, cfg)
			},
			"upsert": func(t *rapid.T) {
				next++
				k := key.Draw(t, "key")
				v := try(k, content(fmt.Sprint(k, "/", next), size(k)+next))
				_ = pick(t).PutFragments(ctx, k, [][]byte{v[:len(v)/3], v[len(v)/3:]}, upsert)
			},
			"get": func(t *rapid.T) {
				keys := rapid.SliceOfN(key, 1, 5).Draw(t, "keys")
				for i, r := range pick(t).BatchGet(ctx, keys) {
					if r.Err == nil {
						require.True(t, tried[keys[i]][string(r.Value)], "wrong bytes of %s", keys[i])
					}
				}
			},
			"remove": func(t *rapid.T) {
				_ = pick(t).Remove(ctx, key.Draw(t, "key"), true)
			},
			"trouble": func(t *rapid.T) {
				chance = rapid.SampledFrom([]float64{0, 0.1, 0.5}).Draw(t, "transport")
				away := rapid.SampledFrom([]float64{0, 0.2}).Draw(t, "master")
				mu.Lock()
				defer mu.Unlock()
				gone = away
			},
			"damage": func(t *rapid.T) {
				mem := memoryOf(rapid.SampledFrom(nodes).Draw(t, "node").node)
				mem[rapid.IntRange(0, len(mem)-1).Draw(t, "at")] ^= 0xff
			},
			"exist": func(t *rapid.T) {
				k := key.Draw(t, "key")
				ok, err := pick(t).Exist(ctx, k)
				require.True(t, err != nil || !ok || len(tried[k]) > 0)
			},
		})
	})
}

// faults goes wrong with a chance, in every way the transport knows.
func faults(chance *float64, seed uint64) memtransport.Hook {
	var mu sync.Mutex
	dice := rand.New(rand.NewPCG(seed, 2))
	classes := []errs.Class{errs.ClassUnknown, errs.ClassTransientPath, errs.ClassTransientPeer, errs.ClassLocalDevice, errs.ClassPermanent}
	return func(memtransport.Event) memtransport.Fault {
		mu.Lock()
		defer mu.Unlock()
		if dice.Float64() >= *chance {
			return memtransport.Fault{}
		}
		err := errs.WithClass(classes[dice.IntN(len(classes))], "test", errs.New(errs.TransferFail, "", "injected"))
		switch dice.IntN(6) {
		case 0:
			return memtransport.Fault{Err: err}
		case 1:
			return memtransport.Fault{Err: err, Partial: true}
		case 2:
			return memtransport.Fault{Err: err, Partial: true, Quarantine: true}
		case 3:
			return memtransport.Fault{Corrupt: true}
		case 4:
			return memtransport.Fault{Duplicate: true}
		default:
			return memtransport.Fault{Delay: time.Microsecond}
		}
	}
}

// TestPoolIsAMap compares a pool without faults with a map.
func TestPoolIsAMap(t *testing.T) {
	p := newPool(t, nil)
	a := p.member("a:1", memberOptions{segments: []uint64{8 << 20}})
	c := p.member("c:1", memberOptions{client: hot})
	rapid.Check(t, func(rt *rapid.T) {
		ctx := context.Background()
		_, err := c.RemoveAll(ctx, true)
		require.NoError(rt, err)
		model := map[string][]byte{}
		key := rapid.Map(rapid.IntRange(0, 5), func(i int) string { return fmt.Sprint("key", i) })
		members := rapid.SampledFrom([]*member{a, c})
		rt.Repeat(map[string]func(*rapid.T){
			"put": func(t *rapid.T) {
				k, v := key.Draw(t, "key"), rapid.SliceOfN(rapid.Byte(), 1, 300).Draw(t, "value")
				require.NoError(t, members.Draw(t, "member").Put(ctx, k, v, one))
				if model[k] == nil {
					model[k] = v
				}
			},
			"get": func(t *rapid.T) {
				k := key.Draw(t, "key")
				got, err := members.Draw(t, "member").Get(ctx, k)
				if model[k] == nil {
					require.True(t, errs.Is(err, errs.ObjectNotFound), "%v", err)
					require.True(t, store.IsMiss(err))
					return
				}
				require.NoError(t, err)
				require.Equal(t, model[k], got)
			},
			"upsert": func(t *rapid.T) {
				k, v := key.Draw(t, "key"), rapid.SliceOfN(rapid.Byte(), 1, 300).Draw(t, "value")
				require.NoError(t, members.Draw(t, "member").PutFragments(ctx, k, pieces(t, v, "piece"), upsert))
				model[k] = v
			},
			"range": func(t *rapid.T) {
				k, off := key.Draw(t, "key"), rapid.IntRange(0, 300).Draw(t, "offset")
				dst := make([]byte, rapid.IntRange(1, 300).Draw(t, "length"))
				r := members.Draw(t, "member").GetIntoRanges(ctx, []store.Ranges{{Key: k, Fragments: []store.Fragment{{Offset: uint64(off), Mem: dst}}}})[0][0]
				if off+len(dst) > len(model[k]) {
					require.Error(t, r.Err)
					return
				}
				require.NoError(t, r.Err)
				require.Equal(t, model[k][off:off+len(dst)], dst)
			},
			"remove": func(t *rapid.T) {
				k := key.Draw(t, "key")
				err := members.Draw(t, "member").Remove(ctx, k, true)
				require.Equal(t, model[k] != nil, err == nil, "%v", err)
				delete(model, k)
			},
			"exist": func(t *rapid.T) {
				k := key.Draw(t, "key")
				ok, err := members.Draw(t, "member").Exist(ctx, k)
				require.NoError(t, err)
				require.Equal(t, model[k] != nil, ok)
			},
		})
	})
}
