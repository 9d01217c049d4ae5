package frame

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/mooncake-go/mooncake/sdk/transport"
	"github.com/mooncake-go/mooncake/sdk/transport/regionkit"
	"github.com/mooncake-go/mooncake/sdk/x/transportkit"
)

const (
	endpointMagic   = 0x31504554 // "TEP1"
	keyMagic        = 0x3159454b // "KEY1"
	upEndpointMagic = 0x31555054 // "TPU1": of a node of upstream
	upKeyMagic      = 0x3155454b // "KEU1"
	KeySize         = 56
	maxBlob         = 4 << 10
)

var ErrBlob = errors.New("malformed")

// endpoint is the content of transport.Endpoint.Blob.
type Endpoint struct {
	Incarnation uint64
	Addrs       []string // host:port, in the order to try
	// Upstream is the version of upstream's protocol that the peer gets, 0 for ours.
	Upstream uint8
}

func (e Endpoint) Encode() []byte {
	le := binary.LittleEndian
	magic := uint32(endpointMagic)
	if e.Upstream != 0 {
		magic = upEndpointMagic
	}
	b := le.AppendUint32(nil, magic)
	b = le.AppendUint64(b, e.Incarnation)
	b = append(b, byte(len(e.Addrs)))
	for _, a := range e.Addrs {
		b = append(le.AppendUint16(b, uint16(len(a))), a...)
	}
	if e.Upstream != 0 {
		b = append(b, e.Upstream)
	}
	return le.AppendUint32(b, Checksum(b))
}

func DecodeEndpoint(b []byte) (Endpoint, error) {
	le := binary.LittleEndian
	if len(b) < 17 || len(b) > maxBlob || (le.Uint32(b) != endpointMagic && le.Uint32(b) != upEndpointMagic) {
		return Endpoint{}, fmt.Errorf("%w endpoint: %d bytes that are not an endpoint of transport/tcp", ErrBlob, len(b))
	}
	body, sum := b[:len(b)-4], le.Uint32(b[len(b)-4:])
	if Checksum(body) != sum {
		return Endpoint{}, fmt.Errorf("%w endpoint: its checksum does not match", ErrBlob)
	}
	e := Endpoint{Incarnation: le.Uint64(b[4:])}
	count, rest := int(body[12]), body[13:]
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
	if le.Uint32(b) == upEndpointMagic {
		if len(rest) == 0 || rest[0] < 1 || rest[0] > 2 {
			return Endpoint{}, fmt.Errorf("%w endpoint: no known version of upstream's protocol", ErrBlob)
		}
		e.Upstream, rest = rest[0], rest[1:]
	}
	if len(rest) != 0 {
		return Endpoint{}, fmt.Errorf("%w endpoint: %d bytes too many", ErrBlob, len(rest))
	}
	return e, nil
}

// remoteKey is the content of transport.Key.
type Key struct {
	Incarnation uint64
	Region      uint64
	Token       regionkit.Token
	Length      uint64
	Access      transport.Access
	// Upstream marks a buffer of a node of upstream: Region is its address, and there is no
	// token.
	Upstream bool
}

func (k *Key) Encode() transport.Key {
	b := make([]byte, KeySize)
	le := binary.LittleEndian
	le.PutUint32(b[0:], keyMagic)
	if k.Upstream {
		le.PutUint32(b[0:], upKeyMagic)
	}
	b[4] = byte(k.Access)
	le.PutUint64(b[8:], k.Incarnation)
	le.PutUint64(b[16:], k.Region)
	copy(b[24:40], k.Token[:])
	le.PutUint64(b[40:], k.Length)
	le.PutUint32(b[52:], Checksum(b[:52]))
	return b
}

func DecodeKey(b []byte) (Key, error) {
	le := binary.LittleEndian
	if len(b) != KeySize || (le.Uint32(b) != keyMagic && le.Uint32(b) != upKeyMagic) || le.Uint32(b[52:]) != Checksum(b[:52]) {
		return Key{}, fmt.Errorf("%w key: %d bytes that are not a key of transport/tcp", ErrBlob, len(b))
	}
	k := Key{
		Incarnation: le.Uint64(b[8:]),
		Region:      le.Uint64(b[16:]),
		Token:       regionkit.Token(b[24:40]),
		Length:      le.Uint64(b[40:]),
		Access:      transport.Access(b[4]),
		Upstream:    le.Uint32(b) == upKeyMagic,
	}
	if k.Region == 0 || k.Length == 0 || k.Access&^transport.AccessRemote != 0 {
		return Key{}, fmt.Errorf("%w key: region %d of %d bytes, access %d", ErrBlob, k.Region, k.Length, k.Access)
	}
	return k, nil
}
