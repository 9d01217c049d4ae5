package wire

import (
	"encoding/binary"

	"github.com/mooncake-go/mooncake/sdk/transport"
	"github.com/mooncake-go/mooncake/sdk/x/transportkit"
)

const (
	endpointMagic = 0x31504551 // "QEP1"
	keyMagic      = 0x31594b51 // "QKY1"
	owner         = "transport/quic"
)

// Fingerprint is the SHA-256 of a certificate, zero for none.
type Fingerprint [32]byte

// Endpoint is the content of transport.Endpoint.Blob.
type Endpoint struct {
	Incarnation uint64
	Addrs       []string // host:port, in the order to try
	// Pin is the certificate that a peer with insecure_dev made for itself.
	Pin Fingerprint
}

// Encode returns the blob of the endpoint.
func (e Endpoint) Encode() []byte {
	b := binary.LittleEndian.AppendUint32(nil, endpointMagic)
	b = binary.LittleEndian.AppendUint64(b, e.Incarnation)
	b = append(b, e.Pin[:]...)
	return transportkit.SealEndpoint(transportkit.AppendAddresses(b, e.Addrs))
}

// DecodeEndpoint reads a blob. An endpoint has one form. Every error wraps transportkit.ErrBlob.
func DecodeEndpoint(b []byte) (Endpoint, error) {
	const head = 4 + 8 + 32
	body, err := transportkit.OpenEndpoint(b, head+1, owner, endpointMagic)
	if err != nil {
		return Endpoint{}, err
	}
	e := Endpoint{Incarnation: binary.LittleEndian.Uint64(body[4:]), Pin: Fingerprint(body[12:head])}
	addrs, rest, err := transportkit.CutAddresses(body[head:])
	if err == nil {
		err = transportkit.CheckEnd(rest)
	}
	if err != nil {
		return Endpoint{}, err
	}
	e.Addrs = addrs
	return e, nil
}

// Key is the content of transport.Key.
type Key transportkit.RegionKey

// Encode returns the key as peers get it.
func (k *Key) Encode() transport.Key { return (*transportkit.RegionKey)(k).Encode(keyMagic) }

// DecodeKey reads a key. Every error wraps transportkit.ErrBlob.
func DecodeKey(b []byte) (Key, error) {
	k, _, err := transportkit.DecodeKey(b, owner, keyMagic)
	return Key(k), err
}
