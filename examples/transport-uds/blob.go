package uds

import (
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/mooncake-go/mooncake/sdk/transport"
)

const (
	endpointMagic = "uds-endpoint-1\n\x00"
	keyMagic      = "uds-key1"
	endpointSize  = len(endpointMagic) + 16 + 8 // and the path of the socket
	keySize       = len(keyMagic) + 8 + 8 + 8 + 16
)

var errBlob = errors.New("not made by transport/uds")

// endpoint is the content of transport.Endpoint.Blob.
type endpoint struct {
	Machine     machine
	Incarnation uint64
	Socket      string
}

func (e endpoint) encode() []byte {
	b := append([]byte(endpointMagic), e.Machine[:]...)
	b = binary.LittleEndian.AppendUint64(b, e.Incarnation)
	return append(b, e.Socket...)
}

// decodeEndpoint trusts nothing: an endpoint comes from a directory that other processes write to,
// and it names a socket of this machine.
func decodeEndpoint(b []byte) (endpoint, error) {
	if len(b) < endpointSize || string(b[:len(endpointMagic)]) != endpointMagic {
		return endpoint{}, fmt.Errorf("an endpoint of %d bytes is %w", len(b), errBlob)
	}
	b = b[len(endpointMagic):]
	e := endpoint{Machine: machine(b[:16]), Incarnation: binary.LittleEndian.Uint64(b[16:]), Socket: string(b[24:])}
	if e.Incarnation == 0 || len(e.Socket) > maxSocket || strings.ContainsRune(e.Socket, 0) ||
		!filepath.IsAbs(e.Socket) || filepath.Clean(e.Socket) != e.Socket || filepath.Base(e.Socket) != socketName(e.Incarnation) {
		return endpoint{}, fmt.Errorf("an endpoint with the socket %q is %w", e.Socket, errBlob)
	}
	return e, nil
}

// remoteKey is the content of transport.Key.
type remoteKey struct {
	Incarnation uint64
	Region      uint64
	Length      uint64
	Token       token
}

func (k *remoteKey) encode() transport.Key {
	le := binary.LittleEndian
	b := le.AppendUint64([]byte(keyMagic), k.Incarnation)
	b = le.AppendUint64(b, k.Region)
	b = le.AppendUint64(b, k.Length)
	return append(b, k.Token[:]...)
}

func decodeKey(b []byte) (remoteKey, error) {
	if len(b) != keySize || string(b[:len(keyMagic)]) != keyMagic {
		return remoteKey{}, fmt.Errorf("a key of %d bytes is %w", len(b), errBlob)
	}
	le := binary.LittleEndian
	b = b[len(keyMagic):]
	k := remoteKey{Incarnation: le.Uint64(b), Region: le.Uint64(b[8:]), Length: le.Uint64(b[16:]), Token: token(b[24:])}
	if k.Incarnation == 0 || k.Region == 0 || k.Length == 0 {
		return remoteKey{}, fmt.Errorf("a key of region %d with %d bytes is %w", k.Region, k.Length, errBlob)
	}
	return k, nil
}
