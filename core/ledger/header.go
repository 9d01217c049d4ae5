package ledger

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"sync/atomic"
	"unsafe"

	"github.com/mooncake-go/mooncake/core/model"
)

// Layout is the number of the format, of the memory and of batches. Open reads this one only. Stores and masters of
// different releases share ledgers: bytes that an earlier release cannot read need another number, see ADR 34.
const Layout = 1

const magic = "MCLEDGER"

// MaxCluster is how long the name of a cluster may be, in bytes.
const MaxCluster = 64

// The header is one page:
//
//	0    magic, 8 bytes
//	8    layout, 4 bytes
//	12   CRC-32C of the bytes 16 to 151, 4 bytes
//	16   segment ID, 16 bytes
//	32   size of the segment, 8 bytes
//	40   length of the cluster's name, 8 bytes, and the name, at most 64 bytes
//	512  words, 8 bytes each, see below
const (
	headerSize = 4096
	identityAt = 16
	clusterAt  = 40
	identityTo = clusterAt + 8 + MaxCluster
	// leastArea is how large the log is at first, in bytes.
	leastArea = 64 << 10
	// maxLog bounds the memory of a ledger: positions in it have 32 bits.
	maxLog = 1<<32 - 1
)

// The words of the header. Each is aligned and is stored with one instruction.
const (
	wordFence  = 512 // the highest epoch that was heard of
	wordActive = 520 // which of the two areas counts: the lowest bit; the rest counts the switches
	wordArea0  = 528 // three words an area: start, length, sequence number before its first batch
	wordArea1  = wordArea0 + 3*8
	wordLease  = wordArea1 + 3*8 // the longest lease of all masters, in nanoseconds
	wordClient = wordLease + 8   // two words: the client of the segment's node
	wordBase   = wordClient + 16 // the address of the segment in the node's process
)

// Identity says what a ledger belongs to.
type Identity struct {
	// Cluster is the name of the pool, at most 64 bytes.
	Cluster string
	Segment model.SegmentID
	// Size is the size of the segment in bytes.
	Size uint64
}

func (id *Identity) put(b []byte) {
	copy(b, magic)
	binary.LittleEndian.PutUint32(b[8:], Layout)
	binary.LittleEndian.PutUint64(b[identityAt:], id.Segment.Hi)
	binary.LittleEndian.PutUint64(b[identityAt+8:], id.Segment.Lo)
	binary.LittleEndian.PutUint64(b[identityAt+16:], id.Size)
	clear(b[clusterAt:identityTo])
	binary.LittleEndian.PutUint64(b[clusterAt:], uint64(len(id.Cluster)))
	copy(b[clusterAt+8:], id.Cluster)
	binary.LittleEndian.PutUint32(b[12:], crc32.Checksum(b[identityAt:identityTo], castagnoli))
}

// identity reads what put wrote.
func identity(b []byte) (Identity, error) {
	if len(b) < headerSize || string(b[:8]) != magic {
		return Identity{}, fmt.Errorf("%w: it does not begin with %q", ErrDamaged, magic)
	}
	if l := binary.LittleEndian.Uint32(b[8:]); l != Layout {
		return Identity{}, fmt.Errorf("%w: its layout is %d, this release reads %d", ErrLayout, l, Layout)
	}
	if binary.LittleEndian.Uint32(b[12:]) != crc32.Checksum(b[identityAt:identityTo], castagnoli) {
		return Identity{}, fmt.Errorf("%w: the checksum of the header does not match", ErrDamaged)
	}
	n := binary.LittleEndian.Uint64(b[clusterAt:])
	if n > MaxCluster {
		return Identity{}, fmt.Errorf("%w: the name of the cluster has %d bytes", ErrDamaged, n)
	}
	return Identity{
		Segment: model.SegmentID{Hi: binary.LittleEndian.Uint64(b[identityAt:]), Lo: binary.LittleEndian.Uint64(b[identityAt+8:])},
		Size:    binary.LittleEndian.Uint64(b[identityAt+16:]),
		Cluster: string(b[clusterAt+8:][:n]),
	}, nil
}

// word is one word of the header. The memory is a mapping or comes from make, so it is aligned.
func word(b []byte, at int) *atomic.Uint64 { return (*atomic.Uint64)(unsafe.Pointer(&b[at])) }

// area is where a log lies: start and length in bytes, and the number of the batch before its first.
type area struct {
	start, length uint64
	before        Seq
}

func areaAt(b []byte, which uint64) area {
	at := wordArea0 + int(which)*(wordArea1-wordArea0)
	return area{word(b, at).Load(), word(b, at+8).Load(), Seq(word(b, at+16).Load())}
}

func (a *area) put(b []byte, which uint64) {
	at := wordArea0 + int(which)*(wordArea1-wordArea0)
	word(b, at).Store(a.start)
	word(b, at+8).Store(a.length)
	word(b, at+16).Store(uint64(a.before))
}

func (a *area) end() uint64 { return a.start + a.length }

// lengthWord is the word that makes an appended batch count.
func lengthWord(b []byte, which uint64) *atomic.Uint64 {
	return word(b, wordArea0+int(which)*(wordArea1-wordArea0)+8)
}
