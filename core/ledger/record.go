package ledger

import (
	"encoding/binary"
	"fmt"
	"unsafe"

	"github.com/mooncake-go/mooncake/core/model"
)

// kind is the first byte of a record.
type kind uint8

const (
	kindBegin  kind = iota + 1 // a put got memory
	kindCommit                 // it is complete
	kindUnlink                 // it is not readable any more; its memory is held
	kindGone                   // its memory is free
)

// Bounds of a record. A longer name or more extents are no record of this version.
const (
	maxName    = 16 << 10
	maxExtents = 1 << 12
	maxParts   = 1 << 20
	withGrains = 1 << 7
)

// A record is its kind, the number of the put as the difference to the record before it in the same
// batch (zigzag), and what the kind has. All numbers are varints.
//
//	begin   epoch, size, part, parts, extents (count, then offset and length each), name, value, flags, type, group, writer (16 bytes)
//	commit  checksum kind (with a bit for grains), checksum, end of the soft pin, grains (count, then 4 bytes each)
//	unlink  nothing
//	gone    nothing
//
// Two marks keep the usual begin short: without marks.parts it is one extent of the whole object
// (part 0 of 1, only the offset follows), without marks.extra there is neither group nor writer nor flag
// nor type. The value is how much lower its number is than that of the put.
const (
	markParts = 1 << iota
	markExtra
	markEpoch  // the put is of another epoch than the batch, which follows: after rewriting
	markValue  // another put wrote the bytes
	knownMarks = markParts | markExtra | markEpoch | markValue
)

// cursor reads varints and bytes; after an error everything it returns is zero. Texts that it returns
// are the bytes themselves, and extents are its own until it reads the next ones: callers that keep an
// object clone it.
type cursor struct {
	b       []byte
	bad     bool
	extents []Extent
}

func (c *cursor) uint() uint64 {
	v, n := binary.Uvarint(c.b)
	if n <= 0 {
		c.b, c.bad = nil, true
		return 0
	}
	c.b = c.b[n:]
	return v
}

// upTo reads a number that must be at most most.
func (c *cursor) upTo(most uint64) uint64 {
	v := c.uint()
	if v > most {
		c.b, c.bad = nil, true
		return 0
	}
	return v
}

func (c *cursor) bytes(n uint64) []byte {
	if n > uint64(len(c.b)) {
		c.b, c.bad = nil, true
		return nil
	}
	out := c.b[:n]
	c.b = c.b[n:]
	return out
}

func (c *cursor) text() string {
	b := c.bytes(c.upTo(maxName))
	return unsafe.String(unsafe.SliceData(b), len(b))
}

func appendString(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// appendBegin appends what a begin has behind its put. The epoch is 0 for that of the batch.
func appendBegin(b []byte, v Version, o *Object) []byte {
	var marks byte
	whole := o.Part == 0 && o.Parts == 1 && len(o.Extents) == 1 && o.Extents[0].Length == o.Size
	if !whole {
		marks |= markParts
	}
	extra := o.Group != "" || !o.Writer.IsZero() || o.Flags != 0 || o.Type != 0
	if extra {
		marks |= markExtra
	}
	if v.Epoch != 0 {
		marks |= markEpoch
	}
	copied := o.Value != 0 && o.Value != v.Put
	if copied {
		marks |= markValue
	}
	b = append(b, marks)
	if v.Epoch != 0 {
		b = binary.AppendUvarint(b, uint64(v.Epoch))
	}
	b = binary.AppendUvarint(b, o.Size)
	if whole {
		b = binary.AppendUvarint(b, o.Extents[0].Offset)
	} else {
		b = binary.AppendUvarint(b, uint64(o.Part))
		b = binary.AppendUvarint(b, uint64(o.Parts))
		b = binary.AppendUvarint(b, uint64(len(o.Extents)))
		for _, e := range o.Extents {
			b = binary.AppendUvarint(b, e.Offset)
			b = binary.AppendUvarint(b, e.Length)
		}
	}
	b = appendString(b, o.Name)
	if copied {
		b = binary.AppendUvarint(b, uint64(v.Put-o.Value))
	}
	if extra {
		b = append(b, byte(o.Flags), o.Type)
		b = appendString(b, o.Group)
		b = binary.LittleEndian.AppendUint64(b, o.Writer.Hi)
		b = binary.LittleEndian.AppendUint64(b, o.Writer.Lo)
	}
	return b
}

// begin reads what appendBegin wrote.
func (c *cursor) begin(epoch Epoch, p Put) (Version, Object) {
	marks := c.bytes(1)
	if c.bad || marks[0]&^knownMarks != 0 {
		c.bad = true
		return Version{}, Object{}
	}
	v, o := Version{Epoch: epoch, Put: p}, Object{Parts: 1, Value: p}
	if marks[0]&markEpoch != 0 {
		v.Epoch = Epoch(c.uint())
	}
	o.Size = c.uint()
	if marks[0]&markParts == 0 {
		c.extents = append(c.extents[:0], Extent{Offset: c.uint(), Length: o.Size})
	} else {
		o.Part, o.Parts = uint32(c.upTo(maxParts)), uint32(c.upTo(maxParts))
		c.extents = c.extents[:0]
		for range min(c.upTo(maxExtents), uint64(len(c.b))) {
			c.extents = append(c.extents, Extent{Offset: c.uint(), Length: c.uint()})
		}
	}
	o.Extents = c.extents
	o.Name = c.text()
	if marks[0]&markValue != 0 {
		o.Value = p - Put(c.uint())
	}
	if marks[0]&markExtra != 0 {
		if f := c.bytes(2); !c.bad {
			o.Flags, o.Type = Flags(f[0]), f[1]
		}
		o.Group = c.text()
		if w := c.bytes(16); !c.bad {
			o.Writer = model.ClientID{Hi: binary.LittleEndian.Uint64(w), Lo: binary.LittleEndian.Uint64(w[8:])}
		}
	}
	c.bad = c.bad || o.Value == 0 || o.Value > p || !o.valid()
	return v, o
}

// valid says whether an object can be: extents that do not wrap, parts that add up.
func (o *Object) valid() bool {
	if o.Name == "" || len(o.Extents) == 0 || o.Parts == 0 || o.Flags&^knownFlags != 0 ||
		uint64(o.Part)+uint64(len(o.Extents)) > uint64(o.Parts) {
		return false
	}
	sum := uint64(0)
	for _, e := range o.Extents {
		if e.Length == 0 || e.End() < e.Offset || sum+e.Length < sum {
			return false
		}
		sum += e.Length
	}
	return sum <= o.Size && (o.Parts > uint32(len(o.Extents)) || sum == o.Size)
}

func appendCommit(b []byte, e Ending) []byte {
	kind := byte(e.Checksum.Kind)
	if len(e.Grains) > 0 {
		kind |= withGrains
	}
	b = append(b, kind)
	b = binary.AppendUvarint(b, e.Checksum.Value)
	b = binary.AppendUvarint(b, e.SoftUntil)
	if len(e.Grains) > 0 {
		b = binary.AppendUvarint(b, uint64(len(e.Grains)))
		for _, g := range e.Grains {
			b = binary.LittleEndian.AppendUint32(b, g)
		}
	}
	return b
}

func (c *cursor) commit() Ending {
	k := c.bytes(1)
	if c.bad {
		return Ending{}
	}
	e := Ending{Checksum: model.Checksum{Kind: model.ChecksumKind(k[0] &^ withGrains), Value: c.uint()}, SoftUntil: c.uint()}
	if k[0]&withGrains == 0 {
		return e
	}
	n := c.upTo(model.MaxGrains)
	c.bad = c.bad || n == 0
	for b := c.bytes(4 * n); len(b) > 0; b = b[4:] {
		e.Grains = append(e.Grains, binary.LittleEndian.Uint32(b))
	}
	return e
}

// record is one decoded record.
type record struct {
	kind kind
	put  Put
	size int // in bytes
	at   int // where what follows the kind and the put begins, in the bytes that were decoded
	// Of a begin: the version and the object. Of a commit: the ending.
	version Version
	object  Object
	ending  Ending
}

// next decodes the record at c. prev is the put of the record before it.
func (c *cursor) next(all int, epoch Epoch, prev Put) (record, error) {
	start := all - len(c.b)
	k := c.bytes(1)
	d := c.uint()
	if c.bad {
		return record{}, fmt.Errorf("%w: a record ends early at byte %d", ErrDamaged, start)
	}
	r := record{kind: kind(k[0]), put: prev + Put(unzigzag(d)), at: all - len(c.b)}
	switch r.kind {
	case kindBegin:
		r.version, r.object = c.begin(epoch, r.put)
	case kindCommit:
		r.ending = c.commit()
	case kindUnlink, kindGone:
	default:
		return record{}, fmt.Errorf("%w: a record of kind %d at byte %d", ErrDamaged, r.kind, start)
	}
	if c.bad {
		return record{}, fmt.Errorf("%w: the record of kind %d at byte %d cannot be decoded", ErrDamaged, r.kind, start)
	}
	r.size = all - len(c.b) - start
	return r, nil
}

func zigzag(d int64) uint64   { return uint64(d<<1) ^ uint64(d>>63) }
func unzigzag(u uint64) int64 { return int64(u>>1) ^ -int64(u&1) }
