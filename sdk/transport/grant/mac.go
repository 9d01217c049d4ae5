package grant

import (
	"crypto/hmac"
	"crypto/sha256"
	"hash"
	"sync"

	"github.com/mooncake-go/mooncake/sdk/transport"
)

// mac computes HMAC-SHA-256, cut to 128 bits, with a key that is prepared once. Safe for concurrent use.
type mac struct{ pool *sync.Pool } // of *state

const (
	claimSize   = 32
	tagSize     = transport.GrantSize - claimSize
	messageSize = claimSize + len(transport.Subject{})
)

// state is the memory of one computation.
type state struct {
	hash hash.Hash
	in   [messageSize]byte
	out  [sha256.Size]byte
}

func newMAC(key []byte) mac {
	return mac{&sync.Pool{New: func() any { return &state{hash: hmac.New(sha256.New, key)} }}}
}

// sum writes the tag of a claim for a subject.
func (m mac) sum(tag *[tagSize]byte, claim *[claimSize]byte, by *transport.Subject) {
	s := m.pool.Get().(*state) //nolint:forcetypeassert // It holds no others.
	copy(s.in[:], claim[:])
	copy(s.in[claimSize:], by[:])
	s.hash.Reset()
	s.hash.Write(s.in[:])
	s.hash.Sum(s.out[:0])
	copy(tag[:], s.out[:])
	m.pool.Put(s)
}
