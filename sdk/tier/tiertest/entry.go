package tiertest

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/sdk/internal/expect"
	"github.com/mooncake-go/mooncake/sdk/tier"
	"github.com/mooncake-go/mooncake/sdk/x/crc32c"
)

// entry is a record, its value, and where it is.
type entry struct {
	tier.Record
	value []byte
	at    tier.Locator
}

// newEntry makes a record with a checksum. The value depends on the key and on the version.
func newEntry(key string, put uint64, size int) entry {
	value := make([]byte, size)
	fill(value, uint64(crc32c.Sum([]byte(key)))<<20+put)
	return newEntryOf(key, put, value)
}

// newEntryOf makes a record of a value, with a checksum.
func newEntryOf(key string, put uint64, value []byte) entry {
	r := tier.Record{Key: []byte(key), Version: tier.Version{Epoch: 1, Put: put}, Size: uint64(len(value)), Sum: crc32c.Sum(value), Summed: true}
	return entry{Record: r, value: value}
}

// kinds are the kinds of content.
var kinds = []struct {
	name string
	make func(size int) []byte
}{
	{"zeros", func(n int) []byte { return make([]byte, n) }},
	{"ones", func(n int) []byte { return bytes.Repeat([]byte{0xff}, n) }},
	{"text", func(n int) []byte {
		return bytes.Repeat([]byte("The quick brown fox jumps over the lazy dog, and goes on. "), n/58+1)[:n]
	}},
	{"repeated pages", func(n int) []byte {
		page := make([]byte, 4096)
		fill(page, 7)
		return bytes.Repeat(page, n/len(page)+1)[:n]
	}},
	{"random bytes", func(n int) []byte { b := make([]byte, n); fill(b, 8); return b }},
	{"random bytes and then zeros", func(n int) []byte { b := make([]byte, n); fill(b[:n/2+1], 9); return b }},
}

// fill writes bytes that depend on seed and on their position.
func fill(b []byte, seed uint64) {
	x := seed*0x9e3779b97f4a7c15 + 1
	next := func() uint64 {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		return x
	}
	i := 0
	for ; i+8 <= len(b); i += 8 {
		binary.LittleEndian.PutUint64(b[i:], next())
	}
	for ; i < len(b); i++ {
		b[i] = byte(next())
	}
}

// writes is the Write of an entry, whose value it copies to buf.
func (e entry) writes(buf []byte) tier.Op {
	return tier.Op{Kind: tier.Write, Record: e.Record, Local: [][]byte{buf[:copy(buf, e.value)]}}
}

// reads is the Read of the whole value into buf.
func (e entry) reads(buf []byte) tier.Op {
	return tier.Op{Kind: tier.Read, Record: e.Record, At: e.at, Local: [][]byte{buf[:e.Size]}}
}

// same compares bytes without printing them all.
func same(t require.TestingT, want, got []byte, about ...any) {
	expect.Len(t, got, len(want), about...)
	if bytes.Equal(want, got) {
		return
	}
	wrong, first := 0, -1
	for i := range want {
		if want[i] != got[i] {
			if wrong++; first < 0 {
				first = i
			}
		}
	}
	what := ""
	if len(about) > 0 {
		what = fmt.Sprintf(about[0].(string), about[1:]...) + ": " //nolint:forcetypeassert // It is a format.
	}
	expect.True(t, false, "%s%d of %d bytes are wrong, the first at %d: it is %#02x, and should be %#02x", what, wrong, len(want), first, got[first], want[first])
}

func fillWith(b []byte, x byte) {
	for i := range b {
		b[i] = x
	}
}
