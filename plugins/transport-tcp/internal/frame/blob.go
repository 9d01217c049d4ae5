package frame

import (
	"encoding/binary"
	"fmt"

	"github.com/mooncake-go/mooncake/sdk/transport"
	"github.com/mooncake-go/mooncake/sdk/x/transportkit"
)

const (
	endpointMagic    = 0x31504554 // "TEP1"
	keyMagic         = 0x3159454b // "KEY1"
	tlsEndpointMagic = 0x31534554 // "TES1": of a node that takes TLS only
	upEndpointMagic  = 0x31555054 // "TPU1": of a node of upstream
	upKeyMagic       = 0x3155454b // "KEU1"
	owner            = "transport/tcp"
)

// Endpoint is the content of transport.Endpoint.Blob.
type Endpoint struct {
	Incarnation uint64
	Addrs       []string // host:port, in the order to try
	// Upstream is the version of upstream's protocol that the peer gets, 0 for ours.
	Upstream uint8
	// TLS says that the node takes TLS only. It makes errors clear; a node that demands TLS never dials
	// without, whatever the endpoint says.
	TLS bool
}

// Encode returns the blob of the endpoint.
func (e Endpoint) Encode() []byte {
	magic := uint32(endpointMagic)
	switch {
	case e.Upstream != 0:
		magic = upEndpointMagic
	case e.TLS:
		magic = tlsEndpointMagic
	}
	b := binary.LittleEndian.AppendUint32(nil, magic)
	b = binary.LittleEndian.AppendUint64(b, e.Incarnation)
	b = transportkit.AppendAddresses(b, e.Addrs)
	if e.Upstream != 0 {
		b = append(b, e.Upstream)
	}
	return transportkit.SealEndpoint(b)
}

// DecodeEndpoint reads a blob. Every error wraps transportkit.ErrBlob.
func DecodeEndpoint(b []byte) (Endpoint, error) {
	body, err := transportkit.OpenEndpoint(b, 13, owner, endpointMagic, tlsEndpointMagic, upEndpointMagic)
	if err != nil {
		return Endpoint{}, err
	}
	e := Endpoint{Incarnation: binary.LittleEndian.Uint64(body[4:])}
	addrs, rest, err := transportkit.CutAddresses(body[12:])
	if err != nil {
		return Endpoint{}, err
	}
	e.Addrs = addrs
	e.TLS = binary.LittleEndian.Uint32(b) == tlsEndpointMagic
	if binary.LittleEndian.Uint32(b) == upEndpointMagic {
		if len(rest) == 0 || rest[0] < 1 || rest[0] > 2 {
			return Endpoint{}, fmt.Errorf("%w endpoint: no known version of upstream's protocol", transportkit.ErrBlob)
		}
		e.Upstream, rest = rest[0], rest[1:]
	}
	return e, transportkit.CheckEnd(rest)
}

// Key is the content of transport.Key.
type Key struct {
	transportkit.RegionKey
	// Upstream marks a buffer of a node of upstream: Region is its address, and there is no token.
	Upstream bool
}

// Encode returns the key as peers get it.
func (k *Key) Encode() transport.Key {
	if k.Upstream {
		return k.RegionKey.Encode(upKeyMagic)
	}
	return k.RegionKey.Encode(keyMagic)
}

// DecodeKey reads a key. Every error wraps transportkit.ErrBlob.
func DecodeKey(b []byte) (Key, error) {
	k, magic, err := transportkit.DecodeKey(b, owner, keyMagic, upKeyMagic)
	return Key{k, magic == upKeyMagic}, err
}
