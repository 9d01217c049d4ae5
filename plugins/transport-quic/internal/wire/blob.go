package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/mooncake-go/mooncake/sdk/transport"
	"github.com/mooncake-go/mooncake/sdk/transport/regionkit"
	"github.com/mooncake-go/mooncake/sdk/x/transportkit"
)

const (
	endpointMagic = 0x31504551 // "QEP1"
	keyMagic      = 0x31594b51 // "QKY1"
	keySize       = 56
	maxBlob       = 4 << 10
)

// ErrBlob is in every error about bytes that are no endpoint or key.
var ErrBlob = errors.New("malformed")

// Fingerprint is the SHA-256 of a certificate, zero for none.
type Fingerprint [32]byte

// Endpoint is the content of transport.Endpoint.Blob.
type Endpoint struct {
	Incarnation uint64
	Addrs       []string // host:port, in the order to try
	// Pin is the certificate that a peer with insecure_dev made for itself.
	Pin Fingerprint
}

// castagnoli finds blobs that were damaged or are another transport's.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func checksum(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

// Encode returns the blob of the endpoint.
func (e Endpoint) Encode() []byte {
	le := binary.LittleEndian
	b := le.AppendUint32(nil, endpointMagic)
	b = le.AppendUint64(b, e.Incarnation)
	b = append(b, e.Pin[:]...)
	b = append(b, byte(len(e.Addrs)))
	for _, a := range e.Addrs {
		b = append(le.AppendUint16(b, uint16(len(a))), a...)
	}
	return le.AppendUint32(b, checksum(b))
}

// DecodeEndpoint reads a blob. An endpoint has one form.
func DecodeEndpoint(b []byte) (Endpoint, error) {
	const head = 4 + 8 + 32 + 1
	le := binary.LittleEndian
	if len(b) < head+4 || len(b) > maxBlob || le.Uint32(b) != endpointMagic {
		return Endpoint{}, fmt.Errorf("%w endpoint: %d bytes that are not an endpoint of transport/quic", ErrBlob, len(b))
	}
	body, sum := b[:len(b)-4], le.Uint32(b[len(b)-4:])
	if checksum(body) != sum {
		return Endpoint{}, fmt.Errorf("%w endpoint: its checksum does not match", ErrBlob)
	}
	e := Endpoint{Incarnation: le.Uint64(b[4:]), Pin: Fingerprint(b[12:44])}
	count, rest := int(body[head-1]), body[head:]
	if count == 0 || count > transportkit.MaxAddresses {
		return Endpoint{}, fmt.Errorf("%w endpoint: %d addresses, must be 1 to %d", ErrBlob, count, transportkit.MaxAddresses)
	}
	for range count {
		if len(rest) < 2 || len(rest)-2 < int(le.Uint16(rest)) {
			return Endpoint{}, fmt.Errorf("%w endpoint: cut off", ErrBlob)
		}
		n := int(le.Uint16(rest))
		addr := string(rest[2 : 2+n])
		if err := transportkit.CheckAddress(addr); err != nil {
			return Endpoint{}, fmt.Errorf("%w endpoint: address %q: %w", ErrBlob, addr, err)
		}
		e.Addrs, rest = append(e.Addrs, addr), rest[2+n:]
	}
	if len(rest) != 0 {
		return Endpoint{}, fmt.Errorf("%w endpoint: %d bytes too many", ErrBlob, len(rest))
	}
	return e, nil
}

// Key is the content of transport.Key.
type Key struct {
	Incarnation uint64
	Region      uint64
	Token       regionkit.Token
	Length      uint64
	Access      transport.Access
}

// Encode returns the key as peers get it.
func (k *Key) Encode() transport.Key {
	b := make([]byte, keySize)
	le := binary.LittleEndian
	le.PutUint32(b[0:], keyMagic)
	b[4] = byte(k.Access)
	le.PutUint64(b[8:], k.Incarnation)
	le.PutUint64(b[16:], k.Region)
	copy(b[24:40], k.Token[:])
	le.PutUint64(b[40:], k.Length)
	le.PutUint32(b[52:], checksum(b[:52]))
	return b
}

// DecodeKey reads a key.
func DecodeKey(b []byte) (Key, error) {
	le := binary.LittleEndian
	if len(b) != keySize || le.Uint32(b) != keyMagic || le.Uint32(b[52:]) != checksum(b[:52]) {
		return Key{}, fmt.Errorf("%w key: %d bytes that are not a key of transport/quic", ErrBlob, len(b))
	}
	k := Key{
		Incarnation: le.Uint64(b[8:]),
		Region:      le.Uint64(b[16:]),
		Token:       regionkit.Token(b[24:40]),
		Length:      le.Uint64(b[40:]),
		Access:      transport.Access(b[4]),
	}
	if k.Region == 0 || k.Length == 0 || k.Access&^transport.AccessRemote != 0 {
		return Key{}, fmt.Errorf("%w key: region %d of %d bytes, access %d", ErrBlob, k.Region, k.Length, k.Access)
	}
	return k, nil
}
