package grant

import (
	"testing"
	"time"

	"github.com/mooncake-go/mooncake/sdk/transport"
)

func BenchmarkCheck(b *testing.B) {
	start := time.Now()
	book := NewBook(func() time.Duration { return time.Since(start) })
	c := new(Clock)
	c.Hear(0, 0, 0)
	e := book.Add(Role{Clock: c})
	var g transport.Grant
	by := SubjectOf("x")
	NewSealer(e.Number, e.Key).Seal(&g, Claim{transport.Read, 4096, 65536, time.Hour}, by)
	b.ReportAllocs()
	for b.Loop() {
		if book.Check(&g, by, transport.Read, 8192, 4096) != transport.GrantGood {
			b.Fatal("refused")
		}
	}
}

func BenchmarkSeal(b *testing.B) {
	s, by := NewSealer(1, NewKey()), SubjectOf("x")
	var g transport.Grant
	b.ReportAllocs()
	for b.Loop() {
		s.Seal(&g, Claim{transport.Read, 4096, 65536, time.Hour}, by)
	}
}
