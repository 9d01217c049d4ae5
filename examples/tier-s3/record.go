package s3

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/mooncake-go/mooncake/sdk/tier"
)

// The object of a record has a head of 64 bytes, the key, and the value.
const (
	headSize = 64
	magic    = 0x3130524345523353 // the format
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// checksum is the CRC-32C of parts one after the other.
func checksum(parts ...[]byte) (sum uint32) {
	for _, p := range parts {
		sum = crc32.Update(sum, castagnoli, p)
	}
	return sum
}

// encodeHead returns the head and the key of a record.
func encodeHead(r tier.Record) []byte {
	b := make([]byte, headSize, headSize+len(r.Key))
	e := binary.LittleEndian
	e.PutUint64(b[0:], magic)
	e.PutUint64(b[8:], r.Version.Epoch)
	e.PutUint64(b[16:], r.Version.Put)
	e.PutUint64(b[24:], r.Size)
	e.PutUint32(b[32:], r.Sum)
	e.PutUint32(b[36:], uint32(len(r.Key)))
	if r.Summed {
		b[40] = 1
	}
	e.PutUint32(b[60:], checksum(b[:60], r.Key))
	return append(b, r.Key...)
}

// decodeHead returns the record of an object of size bytes, from its first bytes.
func decodeHead(b []byte, size uint64) (tier.Record, error) {
	e := binary.LittleEndian
	if len(b) < headSize || e.Uint64(b) != magic {
		return tier.Record{}, fmt.Errorf("it is not the object of a record")
	}
	n := int(e.Uint32(b[36:]))
	if n == 0 || n > tier.MaxKey || n > len(b)-headSize || e.Uint32(b[60:]) != checksum(b[:60], b[headSize:headSize+n]) {
		return tier.Record{}, fmt.Errorf("its head is damaged")
	}
	r := tier.Record{
		Key:     bytes.Clone(b[headSize : headSize+n]),
		Version: tier.Version{Epoch: e.Uint64(b[8:]), Put: e.Uint64(b[16:])},
		Size:    e.Uint64(b[24:]), Sum: e.Uint32(b[32:]), Summed: b[40] == 1,
	}
	if space(r) != size {
		return tier.Record{}, fmt.Errorf("it has %d bytes, want %d", size, space(r))
	}
	return r, nil
}

// space is how much of the capacity a record takes.
func space(r tier.Record) uint64 { return headSize + uint64(len(r.Key)) + r.Size }

// same reports whether a record is the one that a reader expects.
func same(is, want tier.Record) bool {
	return bytes.Equal(is.Key, want.Key) && is.Version == want.Version && is.Size == want.Size &&
		(!is.Summed || !want.Summed || is.Sum == want.Sum)
}
