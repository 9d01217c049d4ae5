package ledger

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

// A batch is a frame of frameSize bytes and records.
//
//	0  length of the records, 4 bytes
//	4  CRC-32C of all that follows it, 4 bytes
//	8  epoch, 8 bytes
//	16 sequence number, 8 bytes
const frameSize = 24

// MaxBatch is how many bytes the records of one batch may have.
const MaxBatch = 4 << 20

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Batch collects records, in the order in which they are to be applied. The zero value is ready. It
// is not safe for concurrent use.
type Batch struct {
	b    []byte
	last Put
}

// Size is how many bytes Bytes returns.
func (b *Batch) Size() int { return max(len(b.b), frameSize) }

// Reset empties the batch and keeps its memory.
func (b *Batch) Reset() { b.b, b.last = b.b[:0], 0 }

func (b *Batch) head(k kind, p Put) {
	if len(b.b) == 0 {
		b.b = append(b.b, make([]byte, frameSize)...)
	}
	b.b = append(b.b, byte(k))
	b.b = binary.AppendUvarint(b.b, zigzag(int64(p-b.last)))
	b.last = p
}

// Begin says that a put of the batch's epoch got memory.
func (b *Batch) Begin(p Put, o *Object) { b.begin(Version{Put: p}, o) }

// begin is Begin of a put of another epoch, 0 for the batch's.
func (b *Batch) begin(v Version, o *Object) {
	b.head(kindBegin, v.Put)
	b.b = appendBegin(b.b, v, o)
}

// Commit says that a put is complete.
func (b *Batch) Commit(p Put, e Ending) {
	b.head(kindCommit, p)
	b.b = appendCommit(b.b, e)
}

// Unlink says that what a put wrote can no longer be read.
func (b *Batch) Unlink(p Put) { b.head(kindUnlink, p) }

// Gone says that the memory of a put is free.
func (b *Batch) Gone(p Put) { b.head(kindGone, p) }

// Bytes finishes the batch with its numbers. The result is valid until the batch changes.
func (b *Batch) Bytes(e Epoch, s Seq) []byte {
	if len(b.b) == 0 {
		b.b = append(b.b, make([]byte, frameSize)...)
	}
	binary.LittleEndian.PutUint32(b.b, uint32(len(b.b)-frameSize))
	binary.LittleEndian.PutUint64(b.b[8:], uint64(e))
	binary.LittleEndian.PutUint64(b.b[16:], uint64(s))
	binary.LittleEndian.PutUint32(b.b[4:], crc32.Checksum(b.b[8:], castagnoli))
	return b.b
}

// frame is the decoded frame of a batch.
type frame struct {
	epoch   Epoch
	seq     Seq
	records []byte
	size    int // of the whole batch
}

// parse reads the batch at the start of b and verifies its checksum.
func parse(b []byte) (frame, error) {
	if len(b) < frameSize {
		return frame{}, fmt.Errorf("%w: a batch has %d bytes, its frame alone has %d", ErrDamaged, len(b), frameSize)
	}
	n := int(binary.LittleEndian.Uint32(b))
	if n > MaxBatch || n > len(b)-frameSize {
		return frame{}, fmt.Errorf("%w: a batch has records of %d bytes, and %d are there (the most is %d)", ErrDamaged, n, len(b)-frameSize, MaxBatch)
	}
	if want, got := binary.LittleEndian.Uint32(b[4:]), crc32.Checksum(b[8:frameSize+n], castagnoli); want != got {
		return frame{}, fmt.Errorf("%w: the checksum of a batch is %08x, its bytes have %08x", ErrDamaged, want, got)
	}
	return frame{
		epoch: Epoch(binary.LittleEndian.Uint64(b[8:])), seq: Seq(binary.LittleEndian.Uint64(b[16:])),
		records: b[frameSize : frameSize+n], size: frameSize + n,
	}, nil
}

// each calls do for every record, whose object is valid during the call. scratch is memory to reuse.
func (f *frame) each(scratch *[]Extent, do func(r *record) error) error {
	c, last := cursor{b: f.records, extents: *scratch}, Put(0)
	defer func() { *scratch = c.extents }()
	for len(c.b) > 0 {
		r, err := c.next(len(f.records), f.epoch, last)
		if err != nil {
			return err
		}
		if err := do(&r); err != nil {
			return err
		}
		last = r.put
	}
	return nil
}
