package memory

import (
	"bytes"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/mooncake-go/mooncake/sdk/errs"
)

// TestArenaCutsDisjointMemory takes and releases at random and keeps what an arena
// promises: no byte belongs to two pieces, the account is exact, and all merges back.
func TestArenaCutsDisjointMemory(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const page = 4096
		size := uint64(rapid.IntRange(1, 200).Draw(t, "pages")) * page
		a, err := NewArena(size, Options{})
		require.NoError(t, err)
		var out []Piece
		used := uint64(0)
		t.Repeat(map[string]func(*rapid.T){
			"take": func(t *rapid.T) {
				n := rapid.Uint64Range(1, size).Draw(t, "n")
				p, ok := a.Take(n)
				if !ok {
					require.NotEmpty(t, out, "an empty arena holds its own size")
					return
				}
				require.Len(t, p.Bytes(), int(n))
				require.Zero(t, p.Offset()%page)
				require.Equal(t, a.block.Addr()+uint64(p.Offset()), AddrOf(p.Bytes()))
				out = append(out, p)
				used += (n + page - 1) / page * page
			},
			"release": func(t *rapid.T) {
				if len(out) == 0 {
					t.Skip()
				}
				i := rapid.IntRange(0, len(out)-1).Draw(t, "i")
				used -= (uint64(len(out[i].Bytes())) + page - 1) / page * page
				out[i].Release()
				out[i].Release()
				out = slices.Delete(out, i, i+1)
			},
			"": func(t *rapid.T) {
				bytes, pieces := a.Used()
				require.Equal(t, used, bytes)
				require.Equal(t, len(out), pieces)
				sorted := slices.SortedFunc(slices.Values(out), func(p, q Piece) int { return int(p.Offset() - q.Offset()) })
				end := int64(0)
				for _, p := range sorted {
					require.GreaterOrEqual(t, p.Offset(), end, "two pieces share bytes")
					end = p.Offset() + int64(len(p.Bytes()))
				}
			},
		})
		if len(out) > 0 {
			require.Error(t, a.Close(), "pieces are out")
		}
		for _, p := range out {
			p.Release()
		}
		whole, ok := a.Take(size)
		require.True(t, ok, "everything must merge back")
		whole.Release()
		require.NoError(t, a.Close())
		require.NoError(t, a.Close())
		_, ok = a.Take(1)
		require.False(t, ok, "closed")
		whole.Release()
	})
}

// A stale copy of a piece must not free the one that has its place now.
func TestArenaPiecesHaveGenerations(t *testing.T) {
	a, err := NewArena(64<<10, Options{})
	require.NoError(t, err)
	first, ok := a.Take(64 << 10)
	require.True(t, ok)
	stale := first
	first.Release()
	second, ok := a.Take(64 << 10)
	require.True(t, ok)
	stale.Release()
	_, pieces := a.Used()
	require.Equal(t, 1, pieces)
	second.Release()
	Piece{}.Release()
	require.NoError(t, a.Close())
}

// Bins are in order, and those from fitting on hold enough: what find relies on.
func TestBins(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Uint64Range(1, 1<<40).Draw(t, "n")
		m := rapid.Uint64Range(1, 1<<40).Draw(t, "m")
		require.LessOrEqual(t, binOf(min(n, m)), binOf(max(n, m)))
		if binOf(m) >= fitting(n) {
			require.GreaterOrEqual(t, m, n)
		}
		require.Less(t, fitting(n), 64*8)
		require.LessOrEqual(t, fitting(n)-binOf(n), 1)
	})
}

func TestArenaConcurrently(t *testing.T) {
	a, err := NewArena(8<<20, Options{})
	require.NoError(t, err)
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 300 {
				p, ok := a.Take(uint64(1 + (i*7919+g)%(512<<10)))
				if !ok {
					continue
				}
				mem := p.Bytes()
				mem[0], mem[len(mem)-1] = byte(g), byte(g)
				if mem[0] != byte(g) || mem[len(mem)-1] != byte(g) {
					t.Error("another piece has the same bytes")
				}
				p.Release()
			}
		})
	}
	wg.Wait()
	require.NoError(t, a.Close())
}

func TestHostFallsBack(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(slog.NewTextHandler(&out, nil))
	h := NewHost(HostConfig{Arena: 1 << 20, Options: Options{Location: "cpu:0"}, Log: log})
	a, err := h.Allocate("a", 512<<10)
	require.NoError(t, err)
	b, err := h.Allocate("b", 512<<10)
	require.NoError(t, err)
	require.Equal(t, HostStats{Arena: 1 << 20, Used: 1 << 20, Pieces: 2}, h.Stats())
	require.Equal(t, []any{a.FD(), int64(512 << 10), "cpu:0"}, []any{b.FD(), b.Offset(), b.Location()})
	b.Bytes()[0] = 9
	again, err := unix.Mmap(b.FD(), b.Offset(), 4096, unix.PROT_READ, unix.MAP_SHARED)
	require.NoError(t, err)
	require.Equal(t, byte(9), again[0], "descriptor and offset lead to the same bytes")
	require.NoError(t, unix.Munmap(again))

	for range 3 {
		c, err := h.Allocate("c", 1)
		require.NoError(t, err)
		require.NotEqual(t, a.FD(), c.FD())
		require.NoError(t, c.Close())
	}
	require.Equal(t, int64(3), h.Stats().Direct)
	require.Equal(t, 1, strings.Count(out.String(), "no room"), "one warning: %s", out.String())
	require.Error(t, h.Close(), "buffers are out")
	require.NoError(t, a.Close())
	require.NoError(t, a.Close())
	require.NoError(t, b.Close())
	require.Nil(t, b.Bytes())
	require.NoError(t, h.Close())
	require.NoError(t, h.Close())

	unused := NewHost(HostConfig{Arena: 1 << 20})
	require.NoError(t, unused.Close())
	x, err := unused.Allocate("x", 1)
	require.NoError(t, err)
	require.Zero(t, unused.Stats().Arena, "none is made after Close")
	require.NoError(t, x.Close())
	_, err = unused.Allocate("x", 0)
	require.True(t, errs.Is(err, errs.InvalidParams))
}

// The arena is a wish, huge pages are not.
func TestHostWithoutItsArena(t *testing.T) {
	var out bytes.Buffer
	root := twoNodes() // seven huge pages
	root["proc/meminfo"] = file("MemTotal: 1048576 kB\n")
	h := NewHost(HostConfig{Arena: 64 << 20, Options: Options{HugePages: Huge2M, Root: root}, Log: slog.New(slog.NewTextHandler(&out, nil))})
	require.Empty(t, out.String(), "no arena before the first buffer")
	_, err := h.Allocate("x", 16<<20)
	require.True(t, errs.Is(err, errs.InvalidParams), "never ordinary pages: %v", err)
	require.Contains(t, out.String(), "32 huge pages of 2MB are needed, 7 are free")
	require.Zero(t, h.Stats().Arena)
	require.NoError(t, h.Close())

	h = NewHost(HostConfig{Arena: 2 << 40, Options: Options{Root: root}})
	b, err := h.Allocate("x", 4096)
	require.NoError(t, err)
	require.NoError(t, b.Close())
	require.NoError(t, h.Close())
}

// The arena beside what it replaces. "mmap" maps and unmaps without touching a page.
func BenchmarkHostBuffer(b *testing.B) {
	const size = 1 << 20
	b.Run("arena", func(b *testing.B) {
		a, err := NewArena(256<<20, Options{})
		require.NoError(b, err)
		defer a.Close() //nolint:errcheck // The benchmark is about pieces.
		b.ReportAllocs()
		for b.Loop() {
			p, _ := a.Take(size)
			p.Release()
		}
	})
	b.Run("arena-parallel", func(b *testing.B) {
		a, err := NewArena(256<<20, Options{})
		require.NoError(b, err)
		defer a.Close() //nolint:errcheck // The benchmark is about pieces.
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				p, _ := a.Take(size)
				p.Release()
			}
		})
	})
	b.Run("arena-block", func(b *testing.B) {
		h := NewHost(HostConfig{Arena: 256 << 20})
		b.ReportAllocs()
		for b.Loop() {
			x, _ := h.Allocate("x", size)
			_ = x.Close()
		}
		require.NoError(b, h.Close())
	})
	b.Run("mmap", func(b *testing.B) {
		for b.Loop() {
			mem, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
			if err != nil {
				b.Fatal(err)
			}
			_ = unix.Munmap(mem)
		}
	})
	b.Run("memfd", func(b *testing.B) {
		for b.Loop() {
			x, err := Allocate(size, Options{})
			if err != nil {
				b.Fatal(err)
			}
			_ = x.Close()
		}
	})
}

// BenchmarkPrefault is the time to provide a block's pages, in bytes per second.
func BenchmarkPrefault(b *testing.B) {
	const size = 1 << 30
	b.SetBytes(size)
	for b.Loop() {
		x, err := Allocate(size, Options{Prefault: true})
		if err != nil {
			b.Fatal(err)
		}
		_ = x.Close()
	}
}
