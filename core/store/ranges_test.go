package store_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"unsafe"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mooncake-go/mooncake/core/internal/testkit/memtransport"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/core/store/client"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// stored calls do with the memory of each stripe of each replica of an object, and where it lies in the
// object.
func stored(o *model.Object, do func(off uint64, mem []byte)) {
	for i := range o.Replicas {
		for off, p := range o.Replicas[i].Parts {
			do(off, unsafe.Slice(*(**byte)(unsafe.Pointer(&p.Address)), int(p.Size)))
		}
	}
}

// putSomehow puts a value whole, over another one, or in ranges that come in any order, some twice.
func putSomehow(t *rapid.T, m *member, key string, value []byte, cfg model.ReplicateConfig) {
	switch rapid.SampledFrom([]string{"whole", "upsert", "ranges"}).Draw(t, "put") {
	case "upsert":
		require.NoError(t, m.Put(tctx, key, content("old", len(value)), cfg))
		require.NoError(t, m.Upsert(tctx, key, value, cfg))
	case "whole":
		require.NoError(t, m.PutFragments(tctx, key, pieces(t, value, "write"), cfg))
	default:
		require.NoError(t, m.StartPuts(tctx, []string{key}, []uint64{uint64(len(value))}, cfg, nil)[0])
		var writes []store.Fragment
		at := 0
		for _, b := range pieces(t, value, "write") {
			writes = append(writes, store.Fragment{Offset: uint64(at), Mem: b})
			at += len(b)
		}
		if rapid.IntRange(0, 4).Draw(t, "again") == 0 {
			writes = append(writes, store.Fragment{Mem: value[:len(value)/2]})
		}
		for _, f := range rapid.Permutation(writes).Draw(t, "order") {
			require.NoError(t, m.PutRanges(tctx, []store.Ranges{{Key: key, Fragments: []store.Fragment{f}}})[0].Err)
		}
		require.NoError(t, m.EndPuts(tctx, []string{key})[0])
	}
}

// TestRangesAreVerified: however an object was put and lies in the pool, no read of ranges returns bytes of a
// grain that has a wrong byte, or of another object; it fails. Ranges without a wrong byte in their grains
// are read. Objects of writers that computed no checksums of grains are verified as a whole, and those
// of writers that computed none at all are read.
func TestRangesAreVerified(t *testing.T) {
	p, l := newLedgerPool(t)
	a := p.member("a:1", memberOptions{segments: []uint64{256 << 20}})
	p.member("b:1", memberOptions{segments: []uint64{256 << 20}})
	c := p.member("c:1", memberOptions{})
	members := rapid.SampledFrom([]*member{a, c})
	n := 0
	rapid.Check(t, func(t *rapid.T) {
		n++
		c.wire.SetSums(rapid.Bool().Draw(t, "checksum during the copy"))
		key := fmt.Sprint("k", n)
		size := rapid.OneOf(rapid.IntRange(1, 70_000), rapid.IntRange(64<<10, 400_000)).Draw(t, "size")
		l.stripe = uint64(rapid.SampledFrom([]int{0, 50_000, 128 << 10}).Draw(t, "stripe"))
		cfg, value := one, content(key, size)
		cfg.ReplicaNum = rapid.Uint32Range(1, 2).Draw(t, "copies")
		putSomehow(t, members.Draw(t, "writer"), key, value, cfg)
		o := l.objects[at(model.Caller{}, key)]
		require.Equal(t, crcOf(value), o.obj.Checksum)
		require.Len(t, o.obj.Grains, model.GrainCount(uint64(size)))
		require.True(t, model.GrainsFit(o.obj.Grains, uint64(size), o.obj.Checksum))

		grain := int(model.GrainSize(uint64(size)))
		if size <= 64<<10 {
			grain = size
		}
		if rapid.IntRange(0, 3).Draw(t, "old writer") == 0 {
			o.obj.Grains, grain = nil, size
		}
		wrong := map[int]bool{} // by grain
		session, r := rapid.Bool().Draw(t, "session"), members.Draw(t, "reader")
		if session {
			require.NoError(t, r.StartGets(tctx, []string{key})[0])
			defer func() { _ = r.EndGets(tctx, []string{key}) }()
		}
		foreign := false
		switch rapid.IntRange(0, 3).Draw(t, "damage") {
		case 0:
		case 1: // Another object lies there. Each of its bytes differs, or the wrong byte might be the right one.
			foreign = true
			stored(&o.obj, func(off uint64, mem []byte) {
				for i := range mem {
					mem[i] = ^value[int(off)+i]
				}
			})
		default:
			x, bit := rapid.IntRange(0, size-1).Draw(t, "byte"), byte(1)<<rapid.IntRange(0, 7).Draw(t, "bit")
			stored(&o.obj, func(off uint64, mem []byte) {
				if at := x - int(off); at >= 0 && at < len(mem) {
					mem[at] ^= bit
				}
			})
			wrong[x/grain] = true
		}
		var fs []store.Fragment
		bad := foreign
		for range rapid.IntRange(1, 4).Draw(t, "ranges") {
			lo := rapid.IntRange(0, size-1).Draw(t, "lo")
			hi := rapid.IntRange(lo+1, size).Draw(t, "hi")
			if rapid.Bool().Draw(t, "aligned") {
				lo = lo / grain * grain
			}
			fs = append(fs, store.Fragment{Offset: uint64(lo), Mem: make([]byte, hi-lo)})
			for g := lo / grain; g <= (hi-1)/grain; g++ {
				bad = bad || wrong[g]
			}
		}
		var err error
		read := []store.Ranges{{Key: key, Fragments: fs}}
		if session {
			err = r.GetRanges(tctx, read)[0].Err
		} else {
			err = r.GetIntoRanges(tctx, read)[0][0].Err
		}
		if bad {
			require.Equal(t, errs.ChecksumMismatch, errs.CodeOf(err), "%v", err)
			return
		}
		require.NoError(t, err)
		for _, f := range fs {
			require.Equal(t, value[f.Offset:][:len(f.Mem)], f.Mem)
		}
	})
}

// TestRangesOfAnotherReplica: a range whose bytes are wrong in one replica comes from the other; one
// that is damaged on the way is read again.
func TestRangesOfAnotherReplica(t *testing.T) {
	const size = 300_000
	p := newPool(t, nil)
	a := p.member("a:1", memberOptions{segments: []uint64{segment}})
	b := p.member("b:1", memberOptions{segments: []uint64{segment}})
	c := p.member("c:1", memberOptions{})
	value := content("k", size)
	require.NoError(t, c.Put(t.Context(), "k", value, two()))
	get := func() error {
		got := make([]byte, 1000)
		err := c.GetIntoRanges(t.Context(), []store.Ranges{{Key: "k", Fragments: []store.Fragment{{Offset: 99_500, Mem: got}}}})[0][0].Err
		if err == nil {
			require.Equal(t, value[99_500:100_500], got)
		}
		return err
	}
	first := true
	c.wire.SetHook(func(e memtransport.Event) memtransport.Fault {
		f := memtransport.Fault{Corrupt: first && e.Kind == transport.Read}
		first = false
		return f
	})
	require.NoError(t, get())
	require.Equal(t, 1, c.count(t, "mooncake_client_checksum_mismatches_total"))
	require.Equal(t, 1, damage(a.node, value[99_800:100_200]))
	for range 5 {
		require.NoError(t, get())
	}
	require.Equal(t, 1, damage(b.node, value[99_800:100_200]))
	require.Equal(t, errs.ChecksumMismatch, errs.CodeOf(get()))
	require.Equal(t, 1, c.count(t, "mooncake_client_damaged_objects_removed_total"))
}

// TestASessionLearnsGrains: the first range of an object without checksums of grains is read with the
// whole of it, and the next ones are not.
func TestASessionLearnsGrains(t *testing.T) {
	const size = 1 << 20
	p, l := newLedgerPool(t)
	p.member("a:1", memberOptions{segments: []uint64{4 * size}})
	c := p.member("c:1", memberOptions{})
	value := content("k", size)
	require.NoError(t, c.Put(t.Context(), "k", value, one))
	o := l.objects[at(model.Caller{}, "k")]
	o.obj.Grains = nil
	require.NoError(t, c.StartGets(t.Context(), []string{"k"})[0])
	moved := 0
	c.wire.SetHook(func(e memtransport.Event) memtransport.Fault {
		moved += e.Len
		return memtransport.Fault{}
	})
	for i := range 3 {
		got := make([]byte, 1000)
		moved = 0
		require.NoError(t, c.GetRanges(t.Context(), []store.Ranges{read("k", 50_000*i, got)})[0].Err)
		require.Equal(t, value[50_000*i:][:1000], got)
		if i == 0 {
			require.Equal(t, size, moved)
		} else {
			require.Equal(t, 16<<10, moved)
		}
	}
	stored(&o.obj, func(_ uint64, mem []byte) { mem[200_000] ^= 1 })
	require.NoError(t, c.GetRanges(t.Context(), []store.Ranges{read("k", 0, make([]byte, 1000))})[0].Err)
	require.Equal(t, errs.ChecksumMismatch, errs.CodeOf(c.GetRanges(t.Context(), []store.Ranges{read("k", 199_000, make([]byte, 10))})[0].Err))
}

// TestRangesWithoutChecksums: they are not verified where the setting says so, or where the writer
// computed no checksum.
func TestRangesWithoutChecksums(t *testing.T) {
	p, l := newLedgerPool(t)
	p.member("a:1", memberOptions{segments: []uint64{segment}})
	c := p.member("c:1", memberOptions{})
	blind := p.member("blind:1", memberOptions{client: func(cfg *client.Config) { cfg.Checksum = false }})
	for key, w := range map[string]*member{"with": c, "without": blind} {
		require.NoError(t, w.Put(t.Context(), key, content(key, 300_000), one))
		stored(&l.objects[at(model.Caller{}, key)].obj, func(_ uint64, mem []byte) { mem[7] ^= 1 })
	}
	get := func(m *member, key string) error {
		return m.GetIntoRanges(t.Context(), []store.Ranges{read(key, 0, make([]byte, 10))})[0][0].Err
	}
	require.NoError(t, get(blind, "with"))
	require.NoError(t, get(blind, "without"))
	require.NoError(t, get(c, "without"))
	require.Equal(t, errs.ChecksumMismatch, errs.CodeOf(get(c, "with")))
}

// TestCopiesKeepGrains: ranges of an object that was moved are verified as before, by grain.
func TestCopiesKeepGrains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, nil)
		a := p.member("a:1", memberOptions{segments: []uint64{segment}})
		c := p.member("c:1", memberOptions{})
		value := content("k", 300_000)
		require.NoError(t, c.Put(t.Context(), "k", value, one))
		b := p.member("b:1", memberOptions{segments: []uint64{segment}})
		id, err := c.CreateMoveTask(t.Context(), "k", a.name, b.name)
		require.NoError(t, err)
		require.Equal(t, model.TaskSuccess, finished(t, c, id).Status)
		moved := 0
		c.wire.SetHook(func(e memtransport.Event) memtransport.Fault {
			moved += e.Len
			return memtransport.Fault{}
		})
		get := func(off int) error {
			return c.GetIntoRanges(t.Context(), []store.Ranges{read("k", off, make([]byte, 1000))})[0][0].Err
		}
		require.NoError(t, get(200_000))
		require.Equal(t, 16<<10, moved)
		require.Equal(t, 1, damage(b.node, value[200_000:200_100]))
		require.NoError(t, get(100_000))
		require.Equal(t, errs.ChecksumMismatch, errs.CodeOf(get(200_000)))
	})
}
