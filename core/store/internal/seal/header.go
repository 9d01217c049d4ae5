package seal

import (
	"bytes"
	"encoding/binary"

	"github.com/mooncake-go/mooncake/sdk/errs"
)

// Algorithm is how an object is sealed.
type Algorithm uint8

// The algorithms. Their numbers are in trailers.
const (
	// MAC: AES-256-GMAC. The body is the value.
	MAC Algorithm = 1
	// AEAD: AES-256-GCM. The body is the ciphertext.
	AEAD Algorithm = 2
)

// version is the version of the format of trailers.
const version = 1

// magic begins a trailer.
var magic = [8]byte{0x89, 'M', 'C', 'S', 'E', 'A', 'L', '\n'}

// Where the fields of a header are. What is between them is zero.
const (
	versionAt, algorithmAt, idSizeAt, sizeAt, saltAt, idAt = 8, 9, 10, 16, 24, 56
	saltSize                                               = idAt - saltAt
	maxID                                                  = headerSize - idAt
)

// header is what a trailer begins with.
type header struct {
	algorithm Algorithm
	size      uint64 // of the value, in bytes
	salt      [saltSize]byte
	id        string // of the key
}

// put writes the header to the beginning of a trailer.
func (h *header) put(trailer []byte) {
	b := trailer[:headerSize]
	clear(b)
	copy(b, magic[:])
	b[versionAt], b[algorithmAt], b[idSizeAt] = version, byte(h.algorithm), byte(len(h.id))
	binary.LittleEndian.PutUint64(b[sizeAt:], h.size)
	copy(b[saltAt:], h.salt[:])
	copy(b[idAt:], h.id)
}

// parse reads the header of the trailer of a value of a size. It accepts only what put writes.
func parse(trailer []byte, size uint64) (header, error) {
	bad := func(format string, args ...any) (header, error) {
		return header{}, errs.New(errs.ChecksumMismatch, "", "the seal of the object is damaged or forged: "+format, args...)
	}
	switch {
	case uint64(len(trailer)) != TrailerSize(size):
		return bad("it has %d bytes, not %d", len(trailer), TrailerSize(size))
	case !bytes.Equal(trailer[:len(magic)], magic[:]):
		return bad("it does not begin as a seal does")
	case trailer[versionAt] != version:
		return bad("its version is %d, this release knows %d", trailer[versionAt], version)
	}
	h := header{algorithm: Algorithm(trailer[algorithmAt]), size: binary.LittleEndian.Uint64(trailer[sizeAt:])}
	if h.algorithm != MAC && h.algorithm != AEAD {
		return bad("its algorithm is %d", h.algorithm)
	}
	if h.size != size {
		return bad("it is that of %d bytes, the object has %d", h.size, size)
	}
	n := int(trailer[idSizeAt])
	if n == 0 || n > maxID {
		return bad("the ID of its key has %d bytes", n)
	}
	copy(h.salt[:], trailer[saltAt:])
	h.id = string(trailer[idAt:][:n])
	var again [headerSize]byte
	if h.put(again[:]); !bytes.Equal(again[:], trailer[:headerSize]) {
		return bad("its unused bytes are not zero")
	}
	return h, nil
}
