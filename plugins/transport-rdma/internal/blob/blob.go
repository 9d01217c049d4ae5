// Package blob is the content of the endpoints and keys that the transport publishes.
//
// Both are little-endian, end in a CRC32C, and are at most Max bytes.
package blob

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/gid"
	"github.com/mooncake-go/mooncake/sdk/transport"
	"github.com/mooncake-go/mooncake/sdk/x/crc32c"
	"github.com/mooncake-go/mooncake/sdk/x/transportkit"
)

const (
	// Max bounds an endpoint and a key, in bytes.
	Max = 4 << 10
	// MaxAddrs bounds the addresses of an endpoint.
	MaxAddrs = transportkit.MaxAddresses
	// MaxDevices bounds the devices of an endpoint and of a key.
	MaxDevices = 32
	// MaxName bounds the name of a device.
	MaxName = 64

	endpointMagic = 0x31504552 // "REP1"
	keyMagic      = 0x3159454b // "KEY1"
)

// ErrMalformed is in every error about bytes that are no endpoint or key.
var ErrMalformed = errors.New("malformed")

// Endpoint is how to reach a node.
type Endpoint struct {
	Incarnation uint64
	// Server is the name of the segment of a node of upstream, empty for our own nodes.
	Server string
	// Addrs are where connections are set up: host:port, in the order to try.
	Addrs   []string
	Devices []Device
}

// Upstream reports whether the node is one of upstream.
func (e *Endpoint) Upstream() bool { return e.Server != "" }

// Device is one device of a node. Its place in the list is its number in keys.
type Device struct {
	Name string
	GID  gid.GID
	LID  uint32
	// MTU is the largest packet in bytes, 0 for unknown.
	MTU uint16
	// NUMA is the node it is attached to, -1 for unknown.
	NUMA int16
	// Speed is in bits per second, 0 for unknown.
	Speed uint64
	// Usable is false for a device that could not be opened; it only holds the place.
	Usable bool
	// Up says that its port was up when the endpoint was made.
	Up bool
}

func seal(b []byte) []byte { return binary.LittleEndian.AppendUint32(b, crc32c.Sum(b)) }

// open checks the frame of a blob and returns what lies between magic and checksum.
func open(b []byte, magic uint32, what string) ([]byte, error) {
	le := binary.LittleEndian
	if len(b) < 8 || len(b) > Max || le.Uint32(b) != magic {
		return nil, fmt.Errorf("%w %s: %d bytes that are not one of transport/rdma", ErrMalformed, what, len(b))
	}
	body, sum := b[:len(b)-4], le.Uint32(b[len(b)-4:])
	if crc32c.Sum(body) != sum {
		return nil, fmt.Errorf("%w %s: its checksum does not match", ErrMalformed, what)
	}
	return body[4:], nil
}

func text(b []byte, s string) []byte {
	return append(binary.LittleEndian.AppendUint16(b, uint16(len(s))), s...)
}

// Encode returns the blob, or an error for an endpoint that does not fit into one.
func (e *Endpoint) Encode() ([]byte, error) {
	if err := e.check(); err != nil {
		return nil, err
	}
	le := binary.LittleEndian
	b := le.AppendUint32(nil, endpointMagic)
	b = le.AppendUint64(b, e.Incarnation)
	b = append(text(b, e.Server), byte(len(e.Addrs)))
	for _, a := range e.Addrs {
		b = text(b, a)
	}
	b = append(b, byte(len(e.Devices)))
	for _, d := range e.Devices {
		b = append(text(b, d.Name), d.GID[:]...)
		b = le.AppendUint32(b, d.LID)
		b = le.AppendUint16(b, d.MTU)
		b = le.AppendUint16(b, uint16(d.NUMA))
		b = le.AppendUint64(b, d.Speed)
		b = append(b, flags(d))
	}
	if b = seal(b); len(b) > Max {
		return nil, fmt.Errorf("%d addresses and %d devices make an endpoint of %d bytes, at most %d are possible", len(e.Addrs), len(e.Devices), len(b), Max)
	}
	return b, nil
}

func flags(d Device) (f byte) {
	if d.Usable {
		f |= 1
	}
	if d.Up {
		f |= 2
	}
	return f
}

// check finds what no endpoint may have.
func (e *Endpoint) check() error {
	switch {
	case len(e.Addrs) == 0 || len(e.Addrs) > MaxAddrs:
		return fmt.Errorf("%w endpoint: %d addresses, must be 1 to %d", ErrMalformed, len(e.Addrs), MaxAddrs)
	case len(e.Devices) == 0 || len(e.Devices) > MaxDevices:
		return fmt.Errorf("%w endpoint: %d devices, must be 1 to %d", ErrMalformed, len(e.Devices), MaxDevices)
	case len(e.Server) > 512 || strings.ContainsAny(e.Server, "\x00"):
		return fmt.Errorf("%w endpoint: a server name of %d bytes", ErrMalformed, len(e.Server))
	}
	for _, a := range e.Addrs {
		if err := transportkit.CheckAddress(a); err != nil {
			return fmt.Errorf("%w endpoint: address %q: %w", ErrMalformed, a, err)
		}
	}
	for i, d := range e.Devices {
		if d.Name == "" || len(d.Name) > MaxName || strings.ContainsAny(d.Name, "@/\x00") {
			return fmt.Errorf("%w endpoint: device %d is named %q", ErrMalformed, i, d.Name)
		}
	}
	return nil
}

// DecodeEndpoint reads a blob. Whatever Encode would refuse is an error.
func DecodeEndpoint(b []byte) (Endpoint, error) {
	body, err := open(b, endpointMagic, "endpoint")
	if err != nil {
		return Endpoint{}, err
	}
	r := reader{rest: body}
	e := Endpoint{Incarnation: r.u64(), Server: r.text()}
	for range r.u8() {
		e.Addrs = append(e.Addrs, r.text())
	}
	for range r.u8() {
		d := Device{Name: r.text(), GID: gid.GID(r.take(16)), LID: r.u32(), MTU: r.u16(), NUMA: int16(r.u16()), Speed: r.u64()}
		f := r.u8()
		r.bad = r.bad || f > 3
		d.Usable, d.Up = f&1 != 0, f&2 != 0
		e.Devices = append(e.Devices, d)
		if r.bad {
			break
		}
	}
	if r.bad || len(r.rest) != 0 {
		return Endpoint{}, fmt.Errorf("%w endpoint: cut off, or too long", ErrMalformed)
	}
	return e, e.check()
}

// reader takes fields off a blob. After a field that is not there everything reads as
// zero and bad is set.
type reader struct {
	rest []byte
	bad  bool
}

// take returns the next n bytes, zeros where there are not as many. n is at most 65535.
func (r *reader) take(n int) []byte {
	if r.bad || len(r.rest) < n {
		r.bad, r.rest = true, nil
		return make([]byte, n)
	}
	out := r.rest[:n]
	r.rest = r.rest[n:]
	return out
}

func (r *reader) u8() byte     { return r.take(1)[0] }
func (r *reader) u16() uint16  { return binary.LittleEndian.Uint16(r.take(2)) }
func (r *reader) u32() uint32  { return binary.LittleEndian.Uint32(r.take(4)) }
func (r *reader) u64() uint64  { return binary.LittleEndian.Uint64(r.take(8)) }
func (r *reader) text() string { return string(r.take(int(r.u16()))) }

// Key is what a peer needs to address a region.
type Key struct {
	Incarnation uint64
	Region      uint64
	// Base and Length are the region in the address space of its owner.
	Base, Length uint64
	// Chunk is the size of the chunks in which the region was registered; the last one may
	// be shorter.
	Chunk  uint64
	Access transport.Access
	// Devices is the number of devices of the owner, and RKeys holds their keys chunk by
	// chunk. 0 is no key.
	Devices int
	RKeys   []uint32
}

// keyHead is the size of a blob without its keys.
const keyHead = 4 + 1 + 1 + 5*8 + 4

// MaxChunks returns how many chunks fit into a key for so many devices.
func MaxChunks(devices int) int { return (Max - keyHead) / (4 * devices) }

// Chunks returns how many chunks the region has.
func (k *Key) Chunks() uint64 { return chunks(k.Length, k.Chunk) }

func chunks(length, chunk uint64) uint64 { return (length-1)/chunk + 1 }

// RKey returns the key of a chunk on a device, 0 for none.
func (k *Key) RKey(chunk uint64, device int) uint32 {
	return k.RKeys[chunk*uint64(k.Devices)+uint64(device)]
}

// Encode returns the blob. The key must have passed check, as those of Encode's callers
// do by construction; one that is too long is an error.
func (k *Key) Encode() (transport.Key, error) {
	if err := k.check(); err != nil {
		return nil, err
	}
	le := binary.LittleEndian
	b := le.AppendUint32(make([]byte, 0, keyHead+4*len(k.RKeys)), keyMagic)
	b = append(b, byte(k.Access), byte(k.Devices))
	for _, v := range []uint64{k.Incarnation, k.Region, k.Base, k.Length, k.Chunk} {
		b = le.AppendUint64(b, v)
	}
	for _, v := range k.RKeys {
		b = le.AppendUint32(b, v)
	}
	return seal(b), nil
}

func (k *Key) check() error {
	switch {
	case k.Length == 0 || k.Chunk == 0 || k.Base > ^uint64(0)-k.Length:
		return fmt.Errorf("%w key: %d bytes at %#x in chunks of %d", ErrMalformed, k.Length, k.Base, k.Chunk)
	case k.Access&^transport.AccessRemote != 0:
		return fmt.Errorf("%w key: access %d", ErrMalformed, k.Access)
	case k.Devices == 0 || k.Devices > MaxDevices:
		return fmt.Errorf("%w key: %d devices, must be 1 to %d", ErrMalformed, k.Devices, MaxDevices)
	case k.Chunks() > uint64(MaxChunks(k.Devices)):
		return fmt.Errorf("%w key: %d chunks for %d devices, at most %d fit", ErrMalformed, k.Chunks(), k.Devices, MaxChunks(k.Devices))
	case uint64(len(k.RKeys)) != k.Chunks()*uint64(k.Devices):
		return fmt.Errorf("%w key: %d keys for %d chunks and %d devices", ErrMalformed, len(k.RKeys), k.Chunks(), k.Devices)
	}
	return nil
}

// DecodeKey reads a blob. Whatever Encode would refuse is an error.
func DecodeKey(b []byte) (*Key, error) {
	body, err := open(b, keyMagic, "key")
	if err != nil {
		return nil, err
	}
	r := reader{rest: body}
	k := &Key{
		Access: transport.Access(r.u8()), Devices: int(r.u8()),
		Incarnation: r.u64(), Region: r.u64(), Base: r.u64(), Length: r.u64(), Chunk: r.u64(),
	}
	if r.bad || len(r.rest)%4 != 0 {
		return nil, fmt.Errorf("%w key: cut off", ErrMalformed)
	}
	for len(r.rest) > 0 {
		k.RKeys = append(k.RKeys, r.u32())
	}
	if err := k.check(); err != nil {
		return nil, err
	}
	return k, nil
}
