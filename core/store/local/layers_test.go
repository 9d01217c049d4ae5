package local_test

import (
	"context"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

func source(off int, b []byte) store.Fragment { return store.Fragment{Offset: uint64(off), Mem: b} }

// layers writes and reads objects in pieces, one layer at a time.
func layers(t *testing.T, u under) {
	const layer, count = 5000, 3
	ctx, keys := t.Context(), []string{"a", "b\xff"}
	src, dst := make([][]byte, len(keys)), make([][]byte, len(keys))
	for i, k := range keys {
		src[i], dst[i] = u.alloc(t, layer*count), u.alloc(t, layer*count)
		fill(src[i], k)
	}
	require.Empty(t, u.Layers().StartPuts(ctx, nil, nil, one, nil))
	require.Empty(t, u.Layers().StartGets(ctx, nil))
	require.NoError(t, u.Layers().EndGets(ctx, nil))
	for _, err := range u.Layers().StartPuts(ctx, keys, []uint64{1}, one, nil) {
		require.Equal(t, errs.InvalidParams, errs.CodeOf(err))
	}
	for _, err := range u.Layers().StartPuts(ctx, keys, []uint64{layer * count, layer * count}, one, []string{"one"}) {
		require.Equal(t, errs.InvalidParams, errs.CodeOf(err))
	}
	for _, err := range u.Layers().StartPuts(ctx, keys, []uint64{layer * count, layer * count}, one, []string{"g", ""}) {
		require.NoError(t, err)
	}
	require.Equal(t, errs.ObjectAlreadyExists, errs.CodeOf(u.Layers().StartPuts(ctx, keys[:1], []uint64{7}, one, nil)[0]))
	for n := count - 1; n >= 0; n-- {
		writes := []store.Ranges{{Key: "unknown", Fragments: []store.Fragment{source(0, src[0][:1])}}}
		for i, k := range keys {
			at, mid := n*layer, n*layer+layer/3
			writes = append(writes, store.Ranges{Key: k, Fragments: []store.Fragment{source(mid, src[i][mid:at+layer]), source(0, nil), source(at, src[i][at:mid])}})
		}
		got := u.Layers().PutRanges(ctx, writes)
		require.Equal(t, errs.InvalidParams, errs.CodeOf(got[0].Err))
		for _, r := range got[1:] {
			require.NoError(t, r.Err)
			require.Equal(t, layer, r.Value)
		}
		far := u.Layers().PutRanges(ctx, []store.Ranges{{Key: keys[0], Fragments: []store.Fragment{source(layer*count-1, src[0][:2])}}})[0]
		require.Equal(t, errs.InvalidParams, errs.CodeOf(far.Err), "beyond the object")
		require.Zero(t, far.Value)
	}
	require.Equal(t, errs.ReplicaIsNotReady, errs.CodeOf(u.Layers().StartGets(ctx, keys[:1])[0]))
	ended := u.Layers().EndPuts(ctx, []string{"unknown", keys[0], keys[1]})
	require.Equal(t, errs.InvalidParams, errs.CodeOf(ended[0]))
	require.NoError(t, ended[1])
	require.NoError(t, ended[2])
	require.NoError(t, u.Layers().RevokePuts(ctx, keys)[0], "over and out")
	upsert := one
	upsert.Upsert = true
	other := u.PutItems(ctx, []store.Item{{Key: keys[0], Value: [][]byte{[]byte("x")}, Group: "other"}}, upsert)
	require.Equal(t, errs.InvalidParams, errs.CodeOf(other[0].Err), "its group stays")

	started := u.Layers().StartGets(ctx, []string{keys[0], "absent", keys[1]})
	require.Equal(t, errs.ObjectNotFound, errs.CodeOf(started[1]))
	require.NoError(t, started[0])
	require.NoError(t, started[2])
	for n := range count {
		reads := []store.Ranges{{Key: "absent", Fragments: []store.Fragment{{Mem: dst[0][:1]}}}}
		for i, k := range keys {
			at, mid := n*layer, n*layer+layer/3
			reads = append(reads, store.Ranges{Key: k, Fragments: []store.Fragment{{Offset: uint64(mid), Mem: dst[i][mid : at+layer]}, {}, {Offset: uint64(at), Mem: dst[i][at:mid]}}})
		}
		got := u.Layers().GetRanges(ctx, reads)
		require.Equal(t, errs.InvalidParams, errs.CodeOf(got[0].Err))
		for _, r := range got[1:] {
			require.NoError(t, r.Err)
			require.Equal(t, layer, r.Value)
		}
		far := u.Layers().GetRanges(ctx, []store.Ranges{{Key: keys[0], Fragments: []store.Fragment{{Offset: layer * count, Mem: dst[0][:1]}}}})[0]
		require.Equal(t, errs.InvalidParams, errs.CodeOf(far.Err))
	}
	require.Equal(t, src, dst)
	require.NoError(t, u.Layers().EndGets(ctx, append(keys, "absent")))
	over := u.Layers().GetRanges(ctx, []store.Ranges{{Key: keys[0], Fragments: []store.Fragment{{Mem: dst[0][:1]}}}})[0]
	require.Equal(t, errs.InvalidParams, errs.CodeOf(over.Err))
	require.NotZero(t, u.Query(ctx, keys)[0].Value.Checksum.Kind, "each byte was written once")

	// What is not complete is never readable, and makes space for the next.
	require.NoError(t, u.Layers().StartPuts(ctx, []string{"half"}, []uint64{10}, one, nil)[0])
	require.NoError(t, u.Layers().PutRanges(ctx, []store.Ranges{{Key: "half", Fragments: []store.Fragment{source(0, src[0][:9])}}})[0].Err)
	require.Equal(t, errs.InvalidParams, errs.CodeOf(u.Layers().EndPuts(ctx, []string{"half"})[0]))
	require.NoError(t, u.Put(ctx, "half", src[0][:3], one))
}

// TestSessionsOfProcesses: sessions of processes that share a client are apart, and those of
// a process that is gone are over.
func TestSessionsOfProcesses(t *testing.T) {
	p := startPool(t)
	_, socket := startServer(t, p, nil)
	a, _ := attach(t, socket, nil)
	b, _ := attach(t, socket, nil)
	ways := []store.Pool{a, b, p.client}
	ctx, write := t.Context(), []store.Ranges{{Key: "k", Fragments: []store.Fragment{source(0, []byte("value"))}}}
	require.NoError(t, a.Layers().StartPuts(ctx, []string{"k"}, []uint64{5}, one, nil)[0])
	for _, other := range ways[1:] {
		require.Equal(t, errs.ObjectAlreadyExists, errs.CodeOf(other.Layers().StartPuts(ctx, []string{"k"}, []uint64{5}, one, nil)[0]))
		require.Equal(t, errs.InvalidParams, errs.CodeOf(other.Layers().PutRanges(ctx, write)[0].Err))
		require.Equal(t, errs.InvalidParams, errs.CodeOf(other.Layers().EndPuts(ctx, []string{"k"})[0]))
		require.NoError(t, other.Layers().RevokePuts(ctx, []string{"k"})[0], "it has nothing to revoke")
	}
	require.NoError(t, a.Layers().PutRanges(ctx, write)[0].Err)
	require.NoError(t, a.Layers().StartPuts(ctx, []string{"k2"}, []uint64{5}, one, nil)[0])
	require.NoError(t, a.Layers().EndPuts(ctx, []string{"k"})[0])
	for _, c := range ways {
		require.NoError(t, c.Layers().StartGets(ctx, []string{"k"})[0])
	}
	require.NoError(t, a.Close(context.Background()))
	require.Eventually(t, func() bool {
		err := p.client.Layers().StartPuts(ctx, []string{"k2"}, []uint64{5}, model.DefaultReplicateConfig(), nil)[0]
		return err == nil
	}, 30*time.Second, time.Millisecond, "the put of a process that is gone is revoked")
	for _, c := range ways[1:] {
		got := make([]byte, 5)
		require.NoError(t, c.Layers().GetRanges(ctx, []store.Ranges{{Key: "k", Fragments: []store.Fragment{{Mem: got}}}})[0].Err)
		require.Equal(t, "value", string(got))
	}
	require.ErrorIs(t, a.Layers().StartGets(ctx, []string{"k"})[0], store.ErrClosed)
	require.ErrorIs(t, a.Layers().EndGets(ctx, []string{"k"}), store.ErrClosed)
	require.ErrorIs(t, a.Layers().GetRanges(ctx, []store.Ranges{{Key: "k"}})[0].Err, store.ErrClosed)
	require.ErrorIs(t, a.Layers().PutRanges(ctx, write)[0].Err, store.ErrClosed)
}

// TestRangesAreVerifiedForProcesses: ranges that a process reads through the client that it is attached to
// are verified, in sessions and without.
func TestRangesAreVerifiedForProcesses(t *testing.T) {
	p := startPool(t)
	_, socket := startServer(t, p, nil)
	c, a := attach(t, socket, nil)
	const size = 300_000
	src, err := a.Alloc(size)
	require.NoError(t, err)
	dst, err := a.Alloc(1000)
	require.NoError(t, err)
	fill(src, "k")
	require.NoError(t, c.Put(t.Context(), "k", src, one))
	part := c.Query(t.Context(), []string{"k"})[0].Value.Replicas[0].Part
	mem := unsafe.Slice(*(**byte)(unsafe.Pointer(&part.Address)), size)
	read := func(off int) []store.Ranges {
		return []store.Ranges{{Key: "k", Fragments: []store.Fragment{source(off, dst)}}}
	}
	require.NoError(t, c.Layers().StartGets(t.Context(), []string{"k"})[0])
	mem[200_500] ^= 1
	require.NoError(t, c.GetIntoRanges(t.Context(), read(100_000))[0][0].Err)
	require.Equal(t, src[100_000:101_000], dst)
	require.NoError(t, c.Layers().GetRanges(t.Context(), read(0))[0].Err)
	require.Equal(t, errs.ChecksumMismatch, errs.CodeOf(c.Layers().GetRanges(t.Context(), read(200_000))[0].Err))
	require.NoError(t, c.Put(t.Context(), "k", src, one), "the damaged object is gone")
	part = c.Query(t.Context(), []string{"k"})[0].Value.Replicas[0].Part
	unsafe.Slice(*(**byte)(unsafe.Pointer(&part.Address)), size)[200_500] ^= 1
	require.Equal(t, errs.ChecksumMismatch, errs.CodeOf(c.GetIntoRanges(t.Context(), read(200_000))[0][0].Err))
}
