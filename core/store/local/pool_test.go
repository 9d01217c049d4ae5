package local_test

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/core/store/local"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// under is one way to reach a pool: its client, and memory that the client moves objects
// into and out of without a copy.
type under struct {
	store.Calls
	alloc func(t *testing.T, n int) []byte
}

// TestPool: every way to reach a pool gives the same answers.
func TestPool(t *testing.T) {
	ways := map[string]func(t *testing.T) under{
		"direct": func(t *testing.T) under {
			return under{store.Calls{Pool: startPool(t).client}, func(_ *testing.T, n int) []byte { return make([]byte, n) }}
		},
		"local": func(t *testing.T) under {
			_, socket := startServer(t, startPool(t), nil)
			c, a := attach(t, socket, nil)
			return under{store.Calls{Pool: c}, shared(c, a)}
		},
		"local, memory not shared": func(t *testing.T) under {
			_, socket := startServer(t, startPool(t), nil)
			c, _ := attach(t, socket, nil)
			return under{store.Calls{Pool: c}, func(_ *testing.T, n int) []byte { return make([]byte, n) }}
		},
	}
	for name, open := range ways {
		for what, check := range map[string]func(*testing.T, under){
			"put and get": putAndGet, "pieces": pieces, "ranges": ranges, "buffers": buffers, "keys": keysOf, "errors": refusals, "tasks": tasks, "layers": layers,
		} {
			t.Run(name+"/"+what, func(t *testing.T) { check(t, open(t)) })
		}
	}
}

// shared allocates and registers memory, and gives it back when the test ends.
func shared(c *local.Client, a *local.Allocator) func(*testing.T, int) []byte {
	return func(t *testing.T, n int) []byte {
		m, err := a.Alloc(uint64(n))
		require.NoError(t, err)
		require.NoError(t, c.RegisterBuffer(t.Context(), m, ""))
		t.Cleanup(func() {
			require.NoError(t, c.UnregisterBuffer(context.Background(), m))
			require.NoError(t, a.Free(m))
		})
		return m
	}
}

func putAndGet(t *testing.T, u under) {
	ctx := t.Context()
	version, err := u.Ready(ctx)
	require.NoError(t, err)
	require.NotEmpty(t, version)
	require.Equal(t, "client:1", u.Hostname())

	var keys []string
	var values, dst [][]byte
	for i := range 20 {
		k := fmt.Sprintf("k\xff%d", i)
		v := u.alloc(t, 1+i*5_001)
		fill(v, k)
		keys, values, dst = append(keys, k), append(values, v), append(dst, u.alloc(t, len(v)+i%2))
	}
	for _, err := range u.BatchPut(ctx, keys, values, one) {
		require.NoError(t, err)
	}
	for i, r := range u.BatchGetInto(ctx, keys, dst) {
		require.NoError(t, r.Err)
		require.Equal(t, len(values[i]), r.Value)
		require.Equal(t, content(keys[i], r.Value), dst[i][:r.Value])
	}
	for i, r := range u.BatchGet(ctx, keys) {
		require.NoError(t, r.Err)
		require.Equal(t, content(keys[i], len(values[i])), r.Value)
	}
	// What is there stays, unless replaced.
	r := u.PutItems(ctx, []store.Item{{Key: keys[1], Value: [][]byte{[]byte("other")}}, {Key: "new", Value: [][]byte{[]byte("n")}}, {Key: "grouped", Value: [][]byte{[]byte("n")}, Group: "g"}}, one)
	require.Equal(t, []store.PutResult{{Existed: true}, {}, {}}, r)
	upsert := one
	upsert.Upsert = true
	r = u.PutItems(ctx, []store.Item{{Key: "grouped", Value: [][]byte{[]byte("x")}, Group: "h"}}, upsert)
	require.Equal(t, errs.InvalidParams, errs.CodeOf(r[0].Err), "its group stays")
	require.NoError(t, u.Upsert(ctx, "grouped", []byte("x"), one), "also where none is named")
	require.NoError(t, u.Upsert(ctx, "new", []byte("newer"), one))
	got, err := u.Get(ctx, "new")
	require.NoError(t, err)
	require.Equal(t, "newer", string(got))
	require.NoError(t, u.BatchUpsert(ctx, []string{"new", "new"}, [][]byte{[]byte("first"), []byte("last")}, one)[1])
	got, err = u.Get(ctx, "new")
	require.NoError(t, err)
	require.Equal(t, "last", string(got))
}

func pieces(t *testing.T, u under) {
	ctx := t.Context()
	want := content("p", 10_000)
	a, b := u.alloc(t, 3000), u.alloc(t, 7000)
	copy(a, want)
	copy(b, want[3000:])
	require.NoError(t, u.PutFragments(ctx, "p", [][]byte{a, nil, b}, one))
	require.NoError(t, u.PutFragments(ctx, "q", [][]byte{b, a}, model.ReplicateConfig{ReplicaNum: 1, Upsert: true}))
	x, y, z := u.alloc(t, 1), u.alloc(t, 8999), u.alloc(t, 5000)
	n, err := u.GetInto(ctx, "p", x, []byte{}, y, z)
	require.NoError(t, err)
	require.Equal(t, 10_000, n)
	require.Equal(t, want, append(append(append([]byte{}, x...), y...), z[:1000]...))
	clear(y)
	_, err = u.GetInto(ctx, "p", [][]byte{y, x}...)
	require.Equal(t, errs.InvalidParams, errs.CodeOf(err))
	require.Equal(t, len(y), bytes.Count(y, []byte{0}), "memory that is too small is not touched")
	got, err := u.Get(ctx, "q")
	require.NoError(t, err)
	require.Equal(t, append(append([]byte{}, want[3000:]...), want[:3000]...), got)
	for _, mem := range [][]byte{a, b, x, y, z} {
		clear(mem)
	}
	several := u.GetFragments(ctx, []string{"q", "none", "p"}, [][]byte{b, a, x, y, z}, []uint64{0, 2, 2, 5})
	require.Equal(t, []int{10_000, 0, 10_000}, []int{several[0].Value, several[1].Value, several[2].Value})
	require.Equal(t, errs.ObjectNotFound, errs.CodeOf(several[1].Err))
	require.Equal(t, want, slices.Concat(a, b))
	require.Equal(t, want, slices.Concat(x, y, z[:1000]))
}

func ranges(t *testing.T, u under) {
	ctx := t.Context()
	v := content("r", 100_000)
	require.NoError(t, u.Put(ctx, "r", v, one))
	a, b, c := u.alloc(t, 10), u.alloc(t, 50_000), u.alloc(t, 8)
	out := u.GetIntoRanges(ctx, []store.Ranges{
		{Key: "r", Fragments: []store.Fragment{{Offset: 7, Mem: a}, {Offset: 50_000, Mem: b}, {Offset: 99_999, Mem: c}}},
		{Key: "none", Fragments: []store.Fragment{{Mem: c}}},
		{Key: "r"},
	})
	require.Len(t, out, 3)
	require.Equal(t, []model.Result[int]{{Value: 10}, {Value: 50_000}}, out[0][:2])
	require.Equal(t, v[7:17], a)
	require.Equal(t, v[50_000:], b)
	require.Equal(t, errs.InvalidParams, errs.CodeOf(out[0][2].Err))
	require.Equal(t, errs.ObjectNotFound, errs.CodeOf(out[1][0].Err))
	require.Empty(t, out[2])
}

func buffers(t *testing.T, u under) {
	ctx := t.Context()
	require.NoError(t, u.Put(ctx, "b", content("b", 300_000), one))
	got := u.GetBuffers(ctx, []string{"b", "none", "b"}, false)
	require.Equal(t, errs.ObjectNotFound, errs.CodeOf(got[1].Err))
	require.Nil(t, got[1].Value)
	for _, i := range []int{0, 2} {
		require.NoError(t, got[i].Err)
		require.Equal(t, content("b", 300_000), got[i].Value.Bytes())
	}
	got[0].Value.Release()
	got[0].Value.Release()
	require.Nil(t, got[0].Value.Bytes())
	require.Equal(t, content("b", 300_000), got[2].Value.Bytes(), "each is released for itself")
	got[2].Value.Release()
	_, err := u.GetBuffer(ctx, "none")
	require.True(t, store.IsMiss(err), "%v", err)
}

func keysOf(t *testing.T, u under) {
	ctx := t.Context()
	for _, k := range []string{"a1", "a2", "b1"} {
		require.NoError(t, u.Put(ctx, k, content(k, 1000), one))
	}
	ok, err := u.Exist(ctx, "a1")
	require.NoError(t, err)
	require.True(t, ok)
	n, err := u.Prefix(ctx, []string{"a1", "a2", "a3", "b1"})
	require.NoError(t, err)
	require.Equal(t, 2, n)
	size, err := u.Size(ctx, "a1")
	require.NoError(t, err)
	require.EqualValues(t, 1000, size)
	list, err := u.ListKeys(ctx, "^a", "", 10)
	require.NoError(t, err)
	require.Equal(t, []string{"a1", "a2"}, list)
	q, objects, err := u.Pool.(regexQuerier).QueryByRegex(ctx, "1$", "", 10)
	require.NoError(t, err)
	require.Equal(t, []string{"a1", "b1"}, q)
	require.EqualValues(t, 1000, objects[1].Value.Size)
	require.Contains(t, objects[1].Value.Replicas[0].Endpoint, "node:")
	require.Equal(t, model.ChecksumCRC32C, objects[1].Value.Checksum.Kind)
	r := u.Query(ctx, []string{"a1", "none"})
	require.Positive(t, r[0].Value.LeaseTTL)
	require.Equal(t, errs.ObjectNotFound, errs.CodeOf(r[1].Err))

	require.Equal(t, errs.ObjectHasLease, errs.CodeOf(u.Remove(ctx, "a1", false)))
	require.NoError(t, u.Remove(ctx, "a1", true))
	n, err = u.RemoveByRegex(ctx, "^a", true)
	require.NoError(t, err)
	require.Equal(t, 1, n)
	n, err = u.RemoveAll(ctx, true)
	require.NoError(t, err)
	require.Equal(t, 1, n)
	gone := u.BatchRemove(ctx, []string{"a1", "a2"}, true)
	require.Equal(t, errs.ObjectNotFound, errs.CodeOf(gone[1]))
	cleared, err := u.ClearReplicas(ctx, []string{"a1"}, "")
	require.NoError(t, err)
	require.Empty(t, cleared)
}

func refusals(t *testing.T, u under) {
	ctx := t.Context()
	require.NoError(t, u.Put(ctx, "k", content("k", 1000), one))
	is := func(want errs.Code, err error) {
		t.Helper()
		require.Equal(t, want, errs.CodeOf(err), "%v", err)
	}
	is(errs.InvalidParams, u.Put(ctx, "", []byte("v"), one))
	is(errs.InvalidParams, u.Put(ctx, "empty", nil, one))
	is(errs.InvalidParams, u.BatchPut(ctx, []string{"a"}, nil, one)[0])
	is(errs.InvalidParams, u.BatchGetInto(ctx, []string{"a"}, nil)[0].Err)
	for _, rows := range [][]uint64{{}, {0}, {0, 2}, {1, 0}, {0, 1, 1}} {
		is(errs.InvalidParams, u.GetFragments(ctx, []string{"a"}, make([][]byte, 1), rows)[0].Err)
	}
	_, err := u.GetInto(ctx, "k", u.alloc(t, 999))
	is(errs.InvalidParams, err)
	_, err = u.Get(ctx, "none")
	is(errs.ObjectNotFound, err)
	_, err = u.RemoveByRegex(ctx, "(", false)
	is(errs.InvalidParams, err)
	_, err = u.ListKeys(ctx, "", "", 0)
	is(errs.InvalidParams, err)
	_, err = u.QueryTask(ctx, model.NewUUID())
	is(errs.TaskNotFound, err)
	ended, cancel := context.WithCancel(ctx)
	cancel()
	_, err = u.Exist(ended, "k")
	require.ErrorIs(t, err, context.Canceled)
	require.False(t, store.IsMiss(err))
	got, err := u.Get(ctx, "k")
	require.NoError(t, err)
	require.Equal(t, content("k", 1000), got)
}

func tasks(t *testing.T, u under) {
	ctx := t.Context()
	require.NoError(t, u.Put(ctx, "k", content("k", 1000), one))
	source, target := "node:1", "node:2"
	if u.Query(ctx, []string{"k"})[0].Value.Replicas[0].Endpoint == target {
		source, target = target, source
	}
	id, err := u.CreateCopyTask(ctx, "k", []string{target})
	require.NoError(t, err)
	task, err := u.QueryTask(ctx, id)
	require.NoError(t, err)
	require.Equal(t, id, task.ID)
	require.Equal(t, "k", task.Spec.Key)
	require.Equal(t, []string{target}, task.Spec.Targets)
	_, err = u.CreateMoveTask(ctx, "none", source, target)
	require.Equal(t, errs.ObjectNotFound, errs.CodeOf(err))
}

// regexQuerier is a client that finds objects by a regular expression.
type regexQuerier interface {
	QueryByRegex(ctx context.Context, expr string, after model.Key, limit int) ([]model.Key, []model.Result[model.Object], error)
}
