package blob

import (
	"encoding/binary"
	"fmt"

	"github.com/mooncake-go/mooncake/sdk/transport"
)

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
