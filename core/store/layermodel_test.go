package store_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// modelPut is a session for writing as a test sees it.
type modelPut struct {
	value []byte // what it is to have
	done  []bool // which bytes were written
}

// ways are two users of one client, and of another.
func ways(a, b *member) []store.Layers {
	return []store.Layers{a.Layers(), a.NewLayers(), b.Layers()}
}

// TestLayersAreAMap compares sessions without faults with a model of them.
func TestLayersAreAMap(t *testing.T) {
	p := newPool(t, nil)
	a := p.member("a:1", memberOptions{segments: []uint64{8 << 20}})
	users := ways(a, p.member("c:1", memberOptions{}))
	rapid.Check(t, func(rt *rapid.T) {
		ctx := context.Background()
		type session struct {
			user int
			key  string
		}
		objects := map[string][]byte{}
		puts, gets := map[session]*modelPut{}, map[session][]byte{}
		key := rapid.Map(rapid.IntRange(0, 3), func(i int) string { return fmt.Sprint("key", i) })
		pick := func(t *rapid.T) session {
			return session{rapid.IntRange(0, len(users)-1).Draw(t, "user"), key.Draw(t, "key")}
		}
		// likely is one of those that are open, as a rule.
		likely := func(t *rapid.T, isOpen func(session) bool) session {
			s := pick(t)
			for u := range len(users) * 4 {
				if other := (session{u / 4, fmt.Sprint("key", u%4)}); isOpen(other) && rapid.IntRange(0, 3).Draw(t, "likely") > 0 {
					return other
				}
			}
			return s
		}
		isPut := func(s session) bool { return puts[s] != nil }
		isGet := func(s session) bool { return gets[s] != nil }
		open := func(k string) bool {
			for s := range puts {
				if s.key == k {
					return true
				}
			}
			return false
		}
		defer func() {
			for s := range puts {
				require.NoError(rt, users[s.user].RevokePuts(ctx, []string{s.key})[0])
			}
			for s := range gets {
				require.NoError(rt, users[s.user].EndGets(ctx, []string{s.key}))
			}
			_, err := a.RemoveAll(ctx, true)
			require.NoError(rt, err)
		}()
		rt.Repeat(map[string]func(*rapid.T){
			"start put": func(t *rapid.T) {
				s, value := pick(t), rapid.SliceOfN(rapid.Byte(), 1, 60).Draw(t, "value")
				err := users[s.user].StartPuts(ctx, []string{s.key}, []uint64{uint64(len(value))}, one, nil)[0]
				if objects[s.key] != nil || open(s.key) {
					require.True(t, errs.Is(err, errs.ObjectAlreadyExists), "%v", err)
					return
				}
				require.NoError(t, err)
				puts[s] = &modelPut{value: value, done: make([]bool, len(value))}
			},
			"write": func(t *rapid.T) {
				s := likely(t, isPut)
				w, total, inside := store.Ranges{Key: s.key}, 0, true
				m := puts[s]
				mark := map[int]int{}
				for range rapid.IntRange(0, 4).Draw(t, "pieces") {
					size := 60
					if m != nil {
						size = len(m.value)
					}
					lo := rapid.IntRange(0, size).Draw(t, "offset")
					n := rapid.IntRange(0, size-lo).Draw(t, "length")
					if rapid.IntRange(0, 19).Draw(t, "beyond") == 0 {
						n = size - lo + 1
					}
					b := make([]byte, n)
					if inside = inside && lo+n <= size; m != nil && lo+n <= size {
						copy(b, m.value[lo:])
						for i := lo; i < lo+n; i++ {
							mark[i]++
						}
					}
					w.Fragments, total = append(w.Fragments, store.Fragment{Offset: uint64(lo), Mem: b}), total+n
				}
				r := users[s.user].PutRanges(ctx, []store.Ranges{w})[0]
				if m == nil || !inside {
					require.True(t, errs.Is(r.Err, errs.InvalidParams), "%v", r.Err)
					return
				}
				require.NoError(t, r.Err)
				require.Equal(t, total, r.Value)
				for i := range mark {
					m.done[i] = true
				}
			},
			"end put": func(t *rapid.T) {
				s := likely(t, isPut)
				m := puts[s]
				if m != nil && rapid.Bool().Draw(t, "fill") {
					for i := range m.done {
						if !m.done[i] {
							require.NoError(t, users[s.user].PutRanges(ctx, []store.Ranges{write(s.key, i, m.value[i:i+1])})[0].Err)
							m.done[i] = true
						}
					}
				}
				err := users[s.user].EndPuts(ctx, []string{s.key})[0]
				complete := m != nil
				for i := 0; m != nil && i < len(m.done); i++ {
					complete = complete && m.done[i]
				}
				if delete(puts, s); !complete {
					require.True(t, errs.Is(err, errs.InvalidParams), "%v", err)
					return
				}
				require.NoError(t, err)
				objects[s.key] = m.value
			},
			"revoke": func(t *rapid.T) {
				s := pick(t)
				require.NoError(t, users[s.user].RevokePuts(ctx, []string{s.key})[0])
				delete(puts, s)
			},
			"start get": func(t *rapid.T) {
				s := likely(t, func(s session) bool { return objects[s.key] != nil && gets[s] == nil })
				err := users[s.user].StartGets(ctx, []string{s.key})[0]
				require.Equal(t, objects[s.key] != nil, err == nil, "%v", err)
				if err == nil {
					gets[s] = objects[s.key]
				}
			},
			"read": func(t *rapid.T) {
				s := likely(t, isGet)
				lo := rapid.IntRange(0, 60).Draw(t, "offset")
				dst := make([]byte, rapid.IntRange(0, 60).Draw(t, "length"))
				r := users[s.user].GetRanges(ctx, []store.Ranges{read(s.key, lo, dst)})[0]
				if v := gets[s]; v == nil || lo+len(dst) > len(v) {
					require.True(t, errs.Is(r.Err, errs.InvalidParams), "%v", r.Err)
					return
				}
				require.NoError(t, r.Err)
				require.Equal(t, gets[s][lo:lo+len(dst)], dst)
			},
			"end get": func(t *rapid.T) {
				s := pick(t)
				require.NoError(t, users[s.user].EndGets(ctx, []string{s.key}))
				delete(gets, s)
			},
			"remove": func(t *rapid.T) {
				k := key.Draw(t, "key")
				for s := range gets {
					if s.key == k {
						return // It stays as it is for its readers.
					}
				}
				if a.Remove(ctx, k, true) == nil {
					delete(objects, k)
				}
			},
			"": func(t *rapid.T) {
				for k, v := range objects {
					r := a.Query(ctx, []string{k})[0]
					require.NoError(t, r.Err)
					require.Equal(t, uint64(len(v)), r.Value.Size)
					if os.Getenv(sealVariable) == "" { // else it is that of the sealed object
						require.Equal(t, crcOf(v), r.Value.Checksum, "also where bytes were written twice")
					}
					got, err := a.Get(ctx, k)
					require.NoError(t, err)
					require.Equal(t, v, got)
				}
			},
		})
	})
}
