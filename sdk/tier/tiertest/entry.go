package tiertest

import (
	"bytes"
	"encoding/binary"

	"github.com/stretchr/testify/require"

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
	r := tier.Record{Key: []byte(key), Version: tier.Version{Epoch: 1, Put: put}, Size: uint64(size), Sum: crc32c.Sum(value), Summed: true}
	return entry{Record: r, value: value}
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

// same compares bytes without printing them.
func same(t require.TestingT, want, got []byte) {
	require.True(t, len(want) == len(got), "%d bytes, want %d", len(got), len(want))
	if bytes.Equal(want, got) {
		return
	}
	for i := range want {
		if want[i] != got[i] {
			require.Failf(t, "wrong bytes", "from byte %d of %d on", i, len(want))
		}
	}
}

func fillWith(b []byte, x byte) {
	for i := range b {
		b[i] = x
	}
}
