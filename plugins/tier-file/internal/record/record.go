// Package record lays out what is stored of one record: a header of one page, then the value.
//
// The header says what the record is and where it has to be: volume, generation, file and offset,
// and the number of the write. So a header that is found elsewhere, or that an earlier write left,
// does not pass for the one that is expected. It also has a checksum of each grain of the value, so
// that a range proves itself as the whole value does.
package record

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/bits"

	"github.com/mooncake-go/mooncake/sdk/x/crc32c"
)

const (
	// Page is the size of a header, and the unit of all places, in bytes.
	Page = 4096
	// MaxKey is the length of the longest key.
	MaxKey = 2048
	// MaxGrains is how many grains a value has at most.
	MaxGrains = 480
	// MaxValue is the size of the largest value; its grains are as large as MaxGrain.
	MaxValue = 512 << 20
	// MaxGrain is the size of the largest grain.
	MaxGrain = 2 << 20

	magic  = 0x6d6f6f6e74696572 // "moontier"
	format = 1
	// The fixed part: magic 0, checksum of the page 8, format 12, flags 14, grain shift 15,
	// volume 16, generation 32, sequence 40, address 48, epoch 56, put 64, size 72, checksum of
	// the value 80, length of the key 84, zero 86.
	fixed     = 88
	leastBits = 14 // grains of 16 KiB
)

// Header is what a record says of itself. Key and Grains of a decoded one belong to the caller.
type Header struct {
	Volume     [16]byte
	Generation uint64
	// Sequence numbers the writes of a volume.
	Sequence uint64
	// Address is where the header is: the number of the file, and of the page in it.
	Address    uint64
	Epoch, Put uint64
	Size       uint64
	// Sum is the CRC-32C of the value, which the caller gave if Summed is set.
	Sum    uint32
	Summed bool
	Key    []byte
	// Grains are the CRC-32C of the grains of the value.
	Grains []uint32
}

// Grain returns the size of the grains of a value, a power of two.
func Grain(size uint64) uint64 {
	shift := leastBits
	if n := (size + MaxGrains - 1) / MaxGrains; n > 1<<leastBits {
		shift = bits.Len64(n - 1)
	}
	return 1 << shift
}

// Grains returns how many grains a value has.
func Grains(size uint64) int { return int((size + Grain(size) - 1) / Grain(size)) }

// Sum returns the checksum of a value from those of its grains.
func Sum(size uint64, grains []uint32) (sum uint32) {
	grain := Grain(size)
	for i, g := range grains {
		sum = crc32c.Combine(sum, g, min(grain, size-uint64(i)*grain))
	}
	return sum
}

// Encode writes the header to a page. The header must be one that Decode accepts.
func (h *Header) Encode(page []byte) {
	page = page[:Page]
	clear(page)
	le := binary.LittleEndian
	le.PutUint64(page, magic)
	le.PutUint16(page[12:], format)
	if h.Summed {
		page[14] = 1
	}
	page[15] = byte(bits.TrailingZeros64(Grain(h.Size)))
	copy(page[16:], h.Volume[:])
	le.PutUint64(page[32:], h.Generation)
	le.PutUint64(page[40:], h.Sequence)
	le.PutUint64(page[48:], h.Address)
	le.PutUint64(page[56:], h.Epoch)
	le.PutUint64(page[64:], h.Put)
	le.PutUint64(page[72:], h.Size)
	le.PutUint32(page[80:], h.Sum)
	le.PutUint16(page[84:], uint16(len(h.Key)))
	at := fixed + copy(page[fixed:], h.Key)
	for _, g := range h.Grains {
		le.PutUint32(page[at:], g)
		at += 4
	}
	le.PutUint32(page[8:], pageSum(page))
}

// pageSum is the checksum of a page without the four bytes that hold it.
func pageSum(page []byte) uint32 { return crc32c.Update(crc32c.Sum(page[:8]), page[12:]) }

var (
	errNoHeader   = errors.New("there is no header")
	errDamaged    = errors.New("the header is damaged")
	errImpossible = errors.New("the header has an impossible field")
)

// Decode reads a header. It accepts hostile input. An error says that the page is none.
func Decode(page []byte) (*Header, error) {
	le := binary.LittleEndian
	switch {
	case len(page) < Page || le.Uint64(page) != magic:
		return nil, errNoHeader
	case le.Uint32(page[8:]) != pageSum(page[:Page]):
		return nil, errDamaged
	}
	h := &Header{
		Volume:     [16]byte(page[16:32]),
		Generation: le.Uint64(page[32:]), Sequence: le.Uint64(page[40:]), Address: le.Uint64(page[48:]),
		Epoch: le.Uint64(page[56:]), Put: le.Uint64(page[64:]),
		Size: le.Uint64(page[72:]), Sum: le.Uint32(page[80:]), Summed: page[14] == 1,
	}
	key := int(le.Uint16(page[84:]))
	switch {
	case le.Uint16(page[12:]) != format, page[14] > 1, page[86] != 0, page[87] != 0,
		h.Size == 0, h.Size > MaxValue, key == 0, key > MaxKey,
		int(page[15]) != bits.TrailingZeros64(Grain(h.Size)):
		return nil, errImpossible
	}
	h.Key = bytes.Clone(page[fixed : fixed+key])
	h.Grains = make([]uint32, Grains(h.Size))
	for i := range h.Grains {
		h.Grains[i] = le.Uint32(page[fixed+key+4*i:])
	}
	return h, nil
}
