package transporttest

import (
	"bytes"

	"github.com/mooncake-go/mooncake/sdk/conformance"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

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
