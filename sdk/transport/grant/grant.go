// Package grant makes and checks grants: short proofs that the master of a pool allowed a process to read or write one
// range of a segment for a while.
//
// The node that has a segment makes a Key for each master that may place objects there, and a Book with which it checks. The
// master makes a Sealer of the key. A grant names the key, the direction, the range and its end; its tag covers these
// and the identity of the process that may use it, which is not sent: the checking side knows it from its connection.
//
// A grant lasts until a time of the clock of the process that made it. The checking side bounds that clock with a
// Clock, and refuses too early rather than too late.
package grant

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"log/slog"
	"time"

	"github.com/mooncake-go/mooncake/sdk/transport"
)

// KeySize is the size of a key, in bytes.
const KeySize = 32

// Key is the secret that a node shares with one master for one segment. It never shows in texts.
type Key struct{ bytes [KeySize]byte }

// NewKey returns a random key.
func NewKey() *Key {
	k := new(Key)
	_, _ = rand.Read(k.bytes[:]) // It never fails.
	return k
}

var errKey = errors.New("a key of grants has 32 bytes")

// ParseKey returns the key that Bytes returned.
func ParseKey(b []byte) (*Key, error) {
	if len(b) != KeySize {
		return nil, errKey
	}
	return &Key{[KeySize]byte(b)}, nil
}

// Bytes returns what ParseKey takes, for a connection that is encrypted. The bytes are those of the key, which the caller does not change.
func (k *Key) Bytes() []byte { return k.bytes[:] }

// String hides the key.
func (*Key) String() string { return "a key of grants" }

// GoString hides the key.
func (k *Key) GoString() string { return k.String() }

// LogValue hides the key.
func (k *Key) LogValue() slog.Value { return slog.StringValue(k.String()) }

// MarshalText hides the key.
func (k *Key) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// SubjectOf returns what stands for an identity, such as "spiffe://pool/mooncake/client/alice".
func SubjectOf(identity string) transport.Subject {
	sum := sha256.Sum256([]byte(identity))
	return transport.Subject(sum[:])
}

// Claim is what a grant allows.
type Claim struct {
	Kind transport.OpKind
	// Offset and Length are the range within the segment, in bytes.
	Offset, Length uint64
	// Until is when it ends, by the clock of the process that made it, to the millisecond.
	Until time.Duration
}

// covers reports whether the claim is for a direction and range.
func (c *Claim) covers(kind transport.OpKind, offset, size uint64) bool {
	return c.Kind == kind && offset >= c.Offset && offset-c.Offset <= c.Length && size <= c.Length-(offset-c.Offset)
}

// put encodes the claim of key number n.
func (c *Claim) put(b *[claimSize]byte, n uint32) {
	le := binary.LittleEndian
	le.PutUint32(b[0:], n)
	le.PutUint32(b[4:], uint32(c.Kind))
	le.PutUint64(b[8:], c.Offset)
	le.PutUint64(b[16:], c.Length)
	le.PutUint64(b[24:], uint64(max(c.Until.Milliseconds(), 0)))
}

// claimOf decodes the claim of a grant, which may say anything.
func claimOf(g *transport.Grant) (c Claim, n uint32) {
	le := binary.LittleEndian
	kind := le.Uint32(g[4:])
	if kind > uint32(transport.Write) {
		kind = 0
	}
	ms := min(le.Uint64(g[24:]), uint64((1<<63-1)/time.Millisecond))
	return Claim{
		Kind: transport.OpKind(kind), Offset: le.Uint64(g[8:]), Length: le.Uint64(g[16:]), Until: time.Duration(ms) * time.Millisecond,
	}, le.Uint32(g[0:])
}

// Sealer makes grants with one key. Safe for concurrent use.
type Sealer struct {
	number uint32
	mac    mac
}

// NewSealer returns the maker of grants with a key, to which the node has given a number.
func NewSealer(number uint32, k *Key) *Sealer { return &Sealer{number: number, mac: newMAC(k.Bytes())} }

// Seal writes the grant of a claim to a subject. It allocates nothing.
func (s *Sealer) Seal(g *transport.Grant, c Claim, by transport.Subject) {
	c.put((*[claimSize]byte)(g[:]), s.number)
	s.mac.sum((*[tagSize]byte)(g[claimSize:]), (*[claimSize]byte)(g[:]), &by)
}
