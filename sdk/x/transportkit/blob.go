package transportkit

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/mooncake-go/mooncake/sdk/transport"
	"github.com/mooncake-go/mooncake/sdk/transport/regionkit"
	"github.com/mooncake-go/mooncake/sdk/x/crc32c"
)

// Endpoints and keys begin with a magic number that names the transport and the format, and end
// with the CRC32C of all bytes before it. All numbers are little-endian.
const (
	maxBlob = 4 << 10
	keySize = 56
)

// ErrBlob is in every error about bytes that are no endpoint or key.
var ErrBlob = errors.New("malformed")

var le = binary.LittleEndian

// SealEndpoint ends an endpoint with its checksum.
func SealEndpoint(b []byte) []byte { return le.AppendUint32(b, crc32c.Sum(b)) }

// OpenEndpoint checks an endpoint of the transport owner ("transport/x") and returns it without its
// checksum. It begins with one of the magic numbers and has at least the bytes of a head and a
// checksum.
func OpenEndpoint(b []byte, head int, owner string, magics ...uint32) ([]byte, error) {
	if len(b) < head+4 || len(b) > maxBlob || !slices.Contains(magics, le.Uint32(b)) {
		return nil, fmt.Errorf("%w endpoint: %d bytes that are not an endpoint of %s", ErrBlob, len(b), owner)
	}
	body := b[:len(b)-4]
	if crc32c.Sum(body) != le.Uint32(b[len(body):]) {
		return nil, fmt.Errorf("%w endpoint: its checksum does not match", ErrBlob)
	}
	return body, nil
}

// AppendAddresses appends the addresses of an endpoint: their number, and each with its length.
func AppendAddresses(b []byte, addrs []string) []byte {
	b = append(b, byte(len(addrs)))
	for _, a := range addrs {
		b = append(le.AppendUint16(b, uint16(len(a))), a...)
	}
	return b
}

// CutAddresses reads what AppendAddresses wrote, 1 to MaxAddresses addresses at the begin of b, and
// returns what follows.
func CutAddresses(b []byte) (addrs []string, rest []byte, err error) {
	count, rest := int(b[0]), b[1:]
	if count == 0 || count > MaxAddresses {
		return nil, nil, fmt.Errorf("%w endpoint: %d addresses, must be 1 to %d", ErrBlob, count, MaxAddresses)
	}
	for range count {
		if len(rest) < 2 || len(rest)-2 < int(le.Uint16(rest)) {
			return nil, nil, fmt.Errorf("%w endpoint: cut off", ErrBlob)
		}
		end := 2 + int(le.Uint16(rest))
		addr := string(rest[2:end])
		if err := CheckAddress(addr); err != nil {
			return nil, nil, fmt.Errorf("%w endpoint: address %q: %w", ErrBlob, addr, err)
		}
		addrs, rest = append(addrs, addr), rest[end:]
	}
	return addrs, rest, nil
}

// CheckEnd returns an error for bytes after the end of an endpoint.
func CheckEnd(rest []byte) error {
	if len(rest) != 0 {
		return fmt.Errorf("%w endpoint: %d bytes too many", ErrBlob, len(rest))
	}
	return nil
}

// RegionKey is the content of a transport.Key.
type RegionKey struct {
	Incarnation uint64
	Region      uint64
	Token       regionkit.Token
	Length      uint64
	Access      transport.Access
}

// Encode returns the key as peers get it.
func (k *RegionKey) Encode(magic uint32) transport.Key {
	b := make([]byte, keySize)
	le.PutUint32(b[0:], magic)
	b[4] = byte(k.Access)
	le.PutUint64(b[8:], k.Incarnation)
	le.PutUint64(b[16:], k.Region)
	copy(b[24:40], k.Token[:])
	le.PutUint64(b[40:], k.Length)
	le.PutUint32(b[52:], crc32c.Sum(b[:52]))
	return b
}

// DecodeKey reads a key of the transport owner ("transport/x") with one of the magic numbers, and
// returns which.
func DecodeKey(b []byte, owner string, magics ...uint32) (k RegionKey, magic uint32, err error) {
	if len(b) != keySize || !slices.Contains(magics, le.Uint32(b)) || le.Uint32(b[52:]) != crc32c.Sum(b[:52]) {
		return RegionKey{}, 0, fmt.Errorf("%w key: %d bytes that are not a key of %s", ErrBlob, len(b), owner)
	}
	k = RegionKey{
		Incarnation: le.Uint64(b[8:]), Region: le.Uint64(b[16:]), Token: regionkit.Token(b[24:40]),
		Length: le.Uint64(b[40:]), Access: transport.Access(b[4]),
	}
	if k.Region == 0 || k.Length == 0 || k.Access&^transport.AccessRemote != 0 {
		return RegionKey{}, 0, fmt.Errorf("%w key: region %d of %d bytes, access %d", ErrBlob, k.Region, k.Length, k.Access)
	}
	return k, le.Uint32(b), nil
}
