package transporttest

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"sync"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mooncake-go/mooncake/sdk/conformance"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

func (s *suite) content(t conformance.T) {
	server, client := s.start(t), s.start(t)
	const size = 2<<20 + 77
	mem, key := s.register(t, server, 1, size, transport.AccessRemote)
	p, ids := dial(t, client, server, key)
	s.contentFrom(t, p, ids[0], mem, s.local(t, client, 1, size+64))
	if s.shared != nil { // A host does not divide operations on this memory.
		s.contentFrom(t, p, ids[0], mem, s.localShared(t, client, 2, size+64))
	}
}

// contentFrom moves bytes between mem, a region of a peer, and local memory that is larger by 64 bytes.
func (s *suite) contentFrom(t conformance.T, p transport.Path, id transport.RemoteID, mem, buf []byte) {
	size := len(mem)
	want, noise := bytes.Clone(mem), make([]byte, size+1000)
	fill(noise, 99)
	for i, n := range []int{1, 2, 63, 64, 65, 4095, 4096, 4097, 65536, 1<<20 - 1, 1 << 20, 1<<20 + 1, size} {
		for _, at := range []int{0, 1, size - n} {
			if at+n > size {
				continue
			}
			got := buf[i : i+n] // At every alignment.
			clear(buf)
			must(t, p, transport.Op{ID: 1, Kind: transport.Read, Local: got, Remote: id, Offset: uint64(at)})
			require.True(t, bytes.Equal(mem[at:at+n], got), "a read of %d bytes at %d must store the bytes of the peer", n, at)
			require.True(t, zero(buf[:i]) && zero(buf[i+n:]), "read %d at %d wrote outside its buffer", n, at)

			copy(got, noise[at%1000:])
			copy(want[at:], got)
			must(t, p, transport.Op{ID: 2, Kind: transport.Write, Local: got, Remote: id, Offset: uint64(at)})
			require.True(t, bytes.Equal(want, mem), "a write of %d bytes at %d must store them in the peer's memory and change nothing else", n, at)
		}
	}
}

func zero(b []byte) bool { return len(bytes.TrimLeft(b, "\x00")) == 0 }

// contentAtRandom submits batches of disjoint writes, then of reads, and compares the results with
// a copy of the memory.
func (s *suite) contentAtRandom(t conformance.T) {
	server, client := s.start(t), s.start(t)
	const size = 300 << 10
	mem, key := s.register(t, server, 1, size, transport.AccessRemote)
	model := bytes.Clone(mem)
	p, ids := dial(t, client, server, key)
	buf := s.local(t, client, 1, size)
	rapid.Check(t, func(rt *rapid.T) {
		cuts := rapid.SliceOfNDistinct(rapid.IntRange(0, size), 1, 12, rapid.ID[int]).Draw(rt, "cuts")
		var writes, reads []transport.Op
		fill(buf, rapid.Uint64().Draw(rt, "seed"))
		for i, c := range cuts {
			end := size
			for _, other := range cuts {
				if other > c {
					end = min(end, other)
				}
			}
			end = min(end, c+rapid.IntRange(0, 64<<10).Draw(rt, "length"))
			copy(model[c:end], buf[c:end])
			writes = append(writes, transport.Op{ID: uint64(i), Kind: transport.Write, Local: buf[c:end], Remote: ids[0], Offset: uint64(c)})
			reads = append(reads, transport.Op{ID: uint64(i), Kind: transport.Read, Local: buf[c:end], Remote: ids[0], Offset: uint64(c)})
		}
		must(t, p, writes...)
		if !bytes.Equal(model, mem) {
			rt.Fatalf("the peer's memory differs after %d writes", len(writes))
		}
		clear(buf)
		must(t, p, reads...)
		for _, o := range reads {
			if !bytes.Equal(o.Local, model[o.Offset:o.Offset+uint64(len(o.Local))]) {
				rt.Fatalf("read %d at %d differs", len(o.Local), o.Offset)
			}
		}
	})
}

func (s *suite) large(t conformance.T) {
	server, client := s.start(t), s.start(t)
	size := 80 << 20
	if s.limitBytes > 0 {
		size = s.limitBytes + 3<<20 + 5
	}
	mem, key := s.register(t, server, 1, size, transport.AccessRemote)
	p, ids := dial(t, client, server, key)
	buf := s.local(t, client, 1, size)
	must(t, p, transport.Op{ID: 1, Kind: transport.Read, Local: buf, Remote: ids[0]})
	require.True(t, bytes.Equal(mem, buf))
	fill(buf[:4096], 9)
	must(t, p, transport.Op{ID: 1, Kind: transport.Write, Local: buf, Remote: ids[0]})
	require.True(t, bytes.Equal(mem, buf))
}

// many lets goroutines share paths. Each uses a range of its own.
func (s *suite) many(t conformance.T) {
	const paths, workers, rounds, piece = 3, 6, 12, 40_000
	server, client := s.start(t), s.start(t)
	mem, key := s.register(t, server, 1, paths*workers*piece, transport.AccessRemote)
	buf := s.local(t, client, 1, 2*len(mem))
	var wg sync.WaitGroup
	for i := range paths {
		p, ids := dial(t, client, server, key)
		d := demux(t, p)
		for j := range workers {
			at := (i*workers + j) * piece
			out, in := buf[at:at+piece], buf[len(mem)+at:len(mem)+at+piece]
			wg.Go(func() {
				rng := rand.New(rand.NewPCG(uint64(i), uint64(j)))
				for range rounds {
					n := 1 + rng.IntN(piece)
					fill(out[:n], rng.Uint64())
					err := d.do(transport.Op{Kind: transport.Write, Local: out[:n], Remote: ids[0], Offset: uint64(at)})
					if err == nil {
						err = d.do(transport.Op{Kind: transport.Read, Local: in[:n], Remote: ids[0], Offset: uint64(at)})
					}
					if err == nil && !bytes.Equal(in[:n], out[:n]) {
						err = fmt.Errorf("%d bytes at %d differ from what was written", n, at)
					}
					if err != nil {
						t.Errorf("worker %d of path %d: %v", j, i, err)
						return
					}
				}
			})
		}
	}
	wg.Wait()
}

func (s *suite) itself(t conformance.T) {
	tr := s.start(t)
	mem, key := s.register(t, tr, 1, 100_000, transport.AccessRemote)
	p, ids := dial(t, tr, tr, key)
	buf := s.local(t, tr, 2, 100_000)
	must(t, p, transport.Op{ID: 1, Kind: transport.Read, Local: buf, Remote: ids[0]})
	require.True(t, bytes.Equal(mem, buf))
}

func (s *suite) zeroLength(t conformance.T) {
	server, client := s.start(t), s.start(t)
	_, key := s.register(t, server, 1, 64, transport.AccessRemote)
	p, ids := dial(t, client, server, key)
	require.NoError(t, server.Stop(within(t)))
	must(t, p, // Without a round trip: there is no peer to answer.
		transport.Op{ID: 1, Kind: transport.Read, Remote: ids[0]},
		transport.Op{ID: 2, Kind: transport.Write, Local: []byte{}, Remote: ids[0], Offset: 64})
}

// sorts are bytes that a transport may treat in different ways: what compresses, what repeats, what is zero.
func sorts() []struct {
	name string
	fill func([]byte)
} {
	const text = "The quick brown fox jumps over the lazy dog, and the lazy dog does not mind. "
	each := func(f func(i int) byte) func([]byte) {
		return func(b []byte) {
			for i := range b {
				b[i] = f(i)
			}
		}
	}
	return []struct {
		name string
		fill func([]byte)
	}{
		{"zeros", func(b []byte) { clear(b) }},
		{"one byte that is not zero, at the end", func(b []byte) { clear(b); b[len(b)-1] = 1 }},
		{"bytes of 255", each(func(int) byte { return 255 })},
		{"text", each(func(i int) byte { return text[i%len(text)] })},
		{"equal pages", func(b []byte) { fill(b[:min(4096, len(b))], 5); each(func(i int) byte { return b[i%4096] })(b) }},
		{"pages that differ by a byte", func(b []byte) {
			fill(b[:min(4096, len(b))], 6)
			each(func(i int) byte { return b[i%4096] })(b)
			for i := 4096 + 17; i < len(b); i += 4096 {
				b[i] = byte(i >> 12)
			}
		}},
		{"numbers that count", each(func(i int) byte { return byte(i >> 2 >> (8 * (i % 4))) })},
		{"random bytes", func(b []byte) { fill(b, 7) }},
	}
}

// contentOfKinds moves bytes of each sort in both directions, over bytes of another sort.
func (s *suite) contentOfKinds(t conformance.T) {
	const size = 1<<20 + 4096 + 13
	server, client := s.start(t), s.start(t)
	mem, key := s.register(t, server, 1, size, transport.AccessRemote)
	p, ids := dial(t, client, server, key)
	buf := s.local(t, client, 1, size)
	for i, sort := range sorts() {
		before := sorts()[(i+len(sorts())-1)%len(sorts())].fill
		for _, n := range []int{512, 4096, 64<<10 + 1, size} {
			for _, kind := range []transport.OpKind{transport.Write, transport.Read} {
				from, to := buf[:n], mem[:n]
				if kind == transport.Read {
					from, to = to, from
				}
				sort.fill(from)
				before(to)
				want := bytes.Clone(from)
				o := transport.Op{ID: uint64(n), Kind: kind, Local: buf[:n], Remote: ids[0]}
				must(t, p, o)
				if at := differs(want, to); at >= 0 {
					t.Fatalf("%s of %s stored the byte %d at %d; it is %d at the source", opText(o), sort.name, to[at], at, want[at])
				}
				if at := differs(want, from); at >= 0 {
					t.Fatalf("%s of %s changed its source at %d", opText(o), sort.name, at)
				}
			}
		}
	}
}

// differs returns where b is not a, or -1.
func differs(a, b []byte) int {
	if bytes.Equal(a, b) {
		return -1
	}
	for i := range a {
		if a[i] != b[i] {
			return i
		}
	}
	return len(a)
}
