// Package structpack encodes and decodes messages of struct_pack, the serialisation of upstream's
// RPCs: a hash of the message's type, sometimes the literal from which the hash is computed, and the
// values in their order without names or padding.
//
// One function per type, its walk, visits the fields in wire order and drives a Coder, which
// describes the type, encodes a value or decodes one. Versions of a type differ by conditions on
// [Coder.Version] in that one function.
package structpack

import (
	"encoding/binary"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// Version numbers the shapes that a type has had. Its meaning is that of the package whose types
// are encoded.
type Version uint8

// The codes of the literal that are not those of numbers.
const (
	charCode     = 0x0c
	stringCode   = 0x80
	mapCode      = 0x82
	setCode      = 0x83
	vectorCode   = 0x84
	optionalCode = 0x85
	variantCode  = 0x86
	expectedCode = 0x87
	structBegin  = 0xfd
	listEnd      = 0xff
)

type mode uint8

const (
	describing mode = iota // append the literal to buf, and count
	measuring              // count the bytes of the smallest value
	encoding               // append the value to buf
	decoding               // read the value from buf at off
)

// Coder describes a type, or encodes or decodes a value. It is used by one goroutine. After the
// first error it does nothing.
type Coder struct {
	mode    mode
	version Version
	width   uint8  // bytes of every count in the message: 1, 2, 4 or 8
	buf     []byte // see the modes
	err     error

	off      int    // decoding
	text     string // decoding: a copy of buf, which the strings share
	own      bool   // decoding: the strings do not share text
	elements int    // decoding: those of all lists so far
	least    int    // describing, measuring: bytes of the smallest value
	largest  uint64 // encoding: the largest count so far
}

// Version returns the version in which the walk visits the type.
func (c *Coder) Version() Version { return c.version }

// Decoding reports whether the walk is to fill the value in.
func (c *Coder) Decoding() bool { return c.mode == decoding }

// Fail ends the encoding or decoding with an error, unless there was one before.
func (c *Coder) Fail(err error) {
	if c.err == nil {
		c.err = err
	}
}

// note adds to the description of the type: the bytes that every value has, and a part of the
// literal.
func (c *Coder) note(least int, literal string) {
	c.least += least
	if c.mode == describing {
		c.buf = append(c.buf, literal...)
	}
}

// take returns the next n bytes, nil if there are less.
func (c *Coder) take(n int) []byte {
	if c.err != nil {
		return nil
	}
	if n > len(c.buf)-c.off {
		c.short("a value of %d bytes", n)
		return nil
	}
	b := c.buf[c.off : c.off+n : c.off+n]
	c.off += n
	return b
}

func (c *Coder) short(what string, args ...any) {
	c.Fail(errs.WithHint(errs.New(errs.DeserializeFail, "structpack: decode",
		"the message has %d bytes after its head, too few for "+what+" at byte %d", append(append([]any{len(c.buf)}, args...), c.off)...),
		"the sender has cut the message off, or it is of another protocol"))
}

// Begin and End surround the fields of a struct or tuple.
func (c *Coder) Begin() {
	if c.mode == describing {
		c.buf = append(c.buf, structBegin)
	}
}

// End is the end of what Begin begins.
func (c *Coder) End() {
	if c.mode == describing {
		c.buf = append(c.buf, listEnd)
	}
}

// Uint64 visits a number of 64 bits.
func (c *Coder) Uint64(v *uint64) { c.uint64(v, "\x04") }

// Int64 visits a signed number of 64 bits.
func (c *Coder) Int64(v *int64) {
	u := uint64(*v)
	c.uint64(&u, "\x03")
	if c.mode == decoding {
		*v = int64(u)
	}
}

func (c *Coder) uint64(v *uint64, literal string) {
	switch c.mode {
	case decoding:
		if b := c.take(8); b != nil {
			*v = binary.LittleEndian.Uint64(b)
		}
	case encoding:
		c.buf = binary.LittleEndian.AppendUint64(c.buf, *v)
	default:
		c.note(8, literal)
	}
}

// Uint32 visits a number of 32 bits.
func (c *Coder) Uint32(v *uint32) { c.uint32(v, "\x02") }

// Int32 visits a signed number of 32 bits, or an enumeration.
func (c *Coder) Int32(v *int32) {
	u := uint32(*v)
	c.uint32(&u, "\x01")
	if c.mode == decoding {
		*v = int32(u)
	}
}

func (c *Coder) uint32(v *uint32, literal string) {
	switch c.mode {
	case decoding:
		if b := c.take(4); b != nil {
			*v = binary.LittleEndian.Uint32(b)
		}
	case encoding:
		c.buf = binary.LittleEndian.AppendUint32(c.buf, *v)
	default:
		c.note(4, literal)
	}
}

// Uint16 visits a number of 16 bits.
func (c *Coder) Uint16(v *uint16) {
	switch c.mode {
	case decoding:
		if b := c.take(2); b != nil {
			*v = binary.LittleEndian.Uint16(b)
		}
	case encoding:
		c.buf = binary.LittleEndian.AppendUint16(c.buf, *v)
	default:
		c.note(2, "\x08")
	}
}

// Uint8 visits a number of 8 bits.
func (c *Coder) Uint8(v *uint8) { c.uint8(v, "\x06") }

// Bool visits a truth value. Every byte but 0 is true.
func (c *Coder) Bool(v *bool) {
	var b uint8
	if *v {
		b = 1
	}
	c.uint8(&b, "\x0b")
	if c.mode == decoding {
		*v = b != 0
	}
}

func (c *Coder) uint8(v *uint8, literal string) {
	switch c.mode {
	case decoding:
		if b := c.take(1); b != nil {
			*v = b[0]
		}
	case encoding:
		c.buf = append(c.buf, *v)
	default:
		c.note(1, literal)
	}
}

// UUID visits an identifier, a pair of numbers. Such a pair is copied as it lies in memory, so
// that its alignment is part of the literal.
func (c *Coder) UUID(v *model.UUID) {
	switch c.mode {
	case decoding:
		if b := c.take(16); b != nil {
			v.Hi, v.Lo = binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:])
		}
	case encoding:
		c.buf = binary.LittleEndian.AppendUint64(c.buf, v.Hi)
		c.buf = binary.LittleEndian.AppendUint64(c.buf, v.Lo)
	default:
		c.note(16, "\xfd\x04\x04\x89\x89\xff")
	}
}

// Void visits what has no value.
func (c *Coder) Void() { c.note(0, "\xfa") }
