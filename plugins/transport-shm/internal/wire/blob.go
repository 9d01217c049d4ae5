package wire

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
	"golang.org/x/sys/unix"
)

// HostID tells apart the places between which abstract sockets reach: a boot of a kernel, and a
// network namespace of it. Machines that were cloned while running share it; that the socket is not
// there tells them apart when they dial.
type HostID struct {
	Boot  [16]byte
	NetNS uint64
}

// ThisHost asks the kernel.
func ThisHost() (HostID, error) {
	const op = "transport/shm: find out which host this is"
	var h HostID
	text, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return h, errs.WithHint(errs.Wrap(errs.NotSupported, op, err), "the transport needs Linux and /proc")
	}
	raw, err := hex.DecodeString(strings.ReplaceAll(strings.TrimSpace(string(text)), "-", ""))
	if err != nil || len(raw) != len(h.Boot) {
		return h, errs.Wrap(errs.NotSupported, op, fmt.Errorf("boot_id is %q", text))
	}
	copy(h.Boot[:], raw)
	var st unix.Stat_t
	if err := unix.Stat("/proc/self/ns/net", &st); err != nil {
		return h, errs.WithHint(errs.Wrap(errs.NotSupported, op, err), "the transport needs Linux and /proc")
	}
	h.NetNS = st.Ino
	return h, nil
}

// Token is 16 random bytes: what opens one region, or the secret of one start.
type Token [16]byte

// The blobs begin with a mark of four bytes and a version of one.
const (
	endpointMark = "MSHE"
	keyMark      = "MSHK"
	blobVersion  = 1
)

// Endpoint is what Endpoint.Blob holds.
type Endpoint struct {
	Host        HostID
	Incarnation uint64
	Secret      Token
	// Socket is the name of an abstract socket, beginning with "@".
	Socket string
}

// maxSocket is the longest name of an abstract socket that the kernel takes, in bytes, with "@" for
// its leading zero.
const maxSocket = 107

// endpointFixed is the bytes before the socket's name: mark, version, host, incarnation, secret,
// length of the name.
const endpointFixed = 4 + 1 + 16 + 8 + 8 + 16 + 1

// Encode returns the blob of the endpoint.
func (e Endpoint) Encode() []byte {
	b := append(make([]byte, 0, endpointFixed+len(e.Socket)), endpointMark...)
	b = append(b, blobVersion)
	b = append(b, e.Host.Boot[:]...)
	b = binary.LittleEndian.AppendUint64(b, e.Host.NetNS)
	b = binary.LittleEndian.AppendUint64(b, e.Incarnation)
	b = append(b, e.Secret[:]...)
	b = append(b, byte(len(e.Socket)))
	return append(b, e.Socket...)
}

var errNoEndpoint = errors.New("the blob is not an endpoint of transport/shm")

// DecodeEndpoint reads a blob. An endpoint has one form.
func DecodeEndpoint(b []byte) (Endpoint, error) {
	var e Endpoint
	if len(b) < endpointFixed || string(b[:4]) != endpointMark {
		return e, errNoEndpoint
	}
	if b[4] != blobVersion {
		return e, fmt.Errorf("the endpoint has version %d, this process knows %d", b[4], blobVersion)
	}
	copy(e.Host.Boot[:], b[5:])
	e.Host.NetNS = binary.LittleEndian.Uint64(b[21:])
	e.Incarnation = binary.LittleEndian.Uint64(b[29:])
	copy(e.Secret[:], b[37:])
	e.Socket = string(b[endpointFixed:])
	if len(e.Socket) != int(b[53]) || len(e.Socket) < 2 || len(e.Socket) > maxSocket || !strings.HasPrefix(e.Socket, "@") {
		return Endpoint{}, errNoEndpoint
	}
	if e.Incarnation == 0 {
		return Endpoint{}, errNoEndpoint
	}
	return e, nil
}

// Key is the content of a transport.Key.
type Key struct {
	Incarnation uint64
	Region      uint64
	Length      uint64
	Access      transport.Access
	Token       Token
}

const keySize = 4 + 1 + 1 + 8 + 8 + 8 + 16

// Encode returns the key as peers get it.
func (k Key) Encode() transport.Key {
	b := append(make([]byte, 0, keySize), keyMark...)
	b = append(b, blobVersion, byte(k.Access))
	b = binary.LittleEndian.AppendUint64(b, k.Incarnation)
	b = binary.LittleEndian.AppendUint64(b, k.Region)
	b = binary.LittleEndian.AppendUint64(b, k.Length)
	return append(b, k.Token[:]...)
}

// DecodeKey reads a key.
func DecodeKey(b []byte) (Key, error) {
	var k Key
	if len(b) != keySize || string(b[:4]) != keyMark {
		return k, errors.New("the blob is not a key of transport/shm")
	}
	if b[4] != blobVersion {
		return k, fmt.Errorf("the key has version %d, this process knows %d", b[4], blobVersion)
	}
	k.Access = transport.Access(b[5])
	k.Incarnation = binary.LittleEndian.Uint64(b[6:])
	k.Region = binary.LittleEndian.Uint64(b[14:])
	k.Length = binary.LittleEndian.Uint64(b[22:])
	copy(k.Token[:], b[30:])
	if k.Access&^transport.AccessRemote != 0 || k.Region == 0 || k.Length == 0 {
		return Key{}, errors.New("the key names no region")
	}
	return k, nil
}

// Writable reports whether peers may write the region.
func (k Key) Writable() bool { return k.Access&transport.AccessRemoteWrite != 0 }
