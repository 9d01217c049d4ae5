package structpack

import (
	"encoding/binary"
	"unsafe"

	"github.com/mooncake-go/mooncake/sdk/errs"
)

// measured is the size in memory from which the bytes of an element are computed before a list is
// allocated. Smaller lists are allocated on the word of the sender.
const measured = 1 << 10

// MaxElements is how many elements the lists of a message may have together. It bounds the memory of
// a decoded message, whose elements take a byte at least.
const MaxElements = 1 << 20

// count visits the number of elements of a container. It returns how many to decode, each of which
// takes at least a byte.
func (c *Coder) count(n int) int {
	switch c.mode {
	case encoding:
		c.largest = max(c.largest, uint64(n))
		if c.width == 1 { // As a rule.
			c.buf = append(c.buf, byte(n))
			return 0
		}
		var b [8]byte
		binary.LittleEndian.PutUint64(b[:], uint64(n))
		c.buf = append(c.buf, b[:c.width]...)
	case decoding:
		u := c.number()
		if left := uint64(len(c.buf) - c.off); c.err == nil && u > left {
			c.short("the %d bytes or elements", u)
		}
		if c.err != nil {
			return 0
		}
		return int(u)
	default:
		c.note(1, "")
	}
	return 0
}

// number decodes a count as it is written.
func (c *Coder) number() uint64 {
	b := c.take(int(c.width))
	if len(b) == 1 { // As a rule.
		return uint64(b[0])
	}
	var whole [8]byte
	copy(whole[:], b)
	return binary.LittleEndian.Uint64(whole[:])
}

// String visits a string. Decoded strings share one copy of the message; see OwnStrings.
func (c *Coder) String(v *string) {
	if c.mode <= measuring {
		c.note(0, "\x80\x0c")
	}
	n := c.count(len(*v))
	switch c.mode {
	case encoding:
		c.buf = append(c.buf, *v...)
	case decoding:
		*v = c.string(n)
	}
}

func (c *Coder) string(n int) string {
	if n == 0 {
		return ""
	}
	c.off += n // count has compared it with what is left.
	if c.own {
		return string(c.buf[c.off-n : c.off])
	}
	if c.text == "" {
		c.text = string(c.buf)
	}
	return c.text[c.off-n : c.off]
}

// OwnStrings gives each string that is decoded from here on memory of its own, so that one can be kept
// without the others.
func (c *Coder) OwnStrings() { c.own = true }

// Strings visits a list of strings.
func (c *Coder) Strings(v *[]string) {
	if c.mode != decoding {
		Vector(c, v, str)
		return
	}
	*v = allocate[string](c, c.count(0)) // A string takes a byte at least.
	for i := range *v {
		(*v)[i] = c.string(c.count(0))
	}
}

// Uint64s visits a list of numbers.
func (c *Coder) Uint64s(v *[]uint64) { Vector(c, v, u64) }

func str(v *string, c *Coder) { c.String(v) }
func u64(v *uint64, c *Coder) { c.Uint64(v) }

// Vector visits a list, whose elements walk visits. An empty list is decoded as nil.
func Vector[T any](c *Coder, v *[]T, walk func(*T, *Coder)) {
	c.note1(vectorCode)
	list(c, v, walk)
}

// Map visits a map, as a list of its entries in any order: walk visits the key and the value.
func Map[T any](c *Coder, v *[]T, walk func(*T, *Coder)) {
	c.note1(mapCode)
	list(c, v, walk)
}

func (c *Coder) note1(code byte) {
	if c.mode == describing {
		c.buf = append(c.buf, code)
	}
}

func list[T any](c *Coder, v *[]T, walk func(*T, *Coder)) {
	n := c.count(len(*v))
	switch c.mode {
	case encoding:
		for i := range *v {
			walk(&(*v)[i], c)
		}
	case decoding:
		*v = fitting(c, n, walk)
		for i := range *v {
			if walk(&(*v)[i], c); c.err != nil {
				return
			}
		}
	default:
		least := c.least
		walk(new(T), c)
		c.least = least // A list may be empty.
	}
}

// fitting returns a list of n elements, nil if the message is too short for them.
func fitting[T any](c *Coder, n int, walk func(*T, *Coder)) []T {
	var zero T
	if uint64(n)*uint64(unsafe.Sizeof(zero)) > measured {
		least, left := leastBytes(c, walk), len(c.buf)-c.off
		if n > left/max(least, 1) {
			c.short("%d elements of at least %d bytes", n, least)
		}
	}
	return allocate[T](c, n)
}

// allocate returns a list of n elements, nil if the message has too many.
func allocate[T any](c *Coder, n int) []T {
	if c.elements += n; c.elements > MaxElements {
		c.Fail(errs.New(errs.DeserializeFail, "structpack: decode", "the lists of the message have more than %d elements", MaxElements))
	}
	if n == 0 || c.err != nil {
		return nil
	}
	return make([]T, n)
}

// leastBytes returns the bytes that every value of a type takes.
func leastBytes[T any](c *Coder, walk func(*T, *Coder)) int {
	c.mode, c.least = measuring, 0
	walk(new(T), c)
	c.mode = decoding
	return c.least
}

// Optional visits a value that may be missing.
func Optional[T any](c *Coder, present *bool, v *T, walk func(*T, *Coder)) {
	c.note1(optionalCode)
	least := c.least
	c.flag(present)
	if c.mode <= measuring || *present {
		walk(v, c)
	}
	if c.mode <= measuring {
		c.least = least + 1
	}
}

// flag visits a truth value that is not a field.
func (c *Coder) flag(v *bool) {
	if c.mode > measuring {
		c.Bool(v)
	}
}

// Expected visits a value, or the error code that is there instead of it.
func Expected[T any](c *Coder, code *errs.Code, v *T, walk func(*T, *Coder)) {
	c.note1(expectedCode)
	ok := *code == errs.OK
	c.flag(&ok)
	least := c.least
	if c.mode <= measuring || ok {
		walk(v, c)
	}
	value := c.least - least
	if c.mode <= measuring || !ok {
		c.Int32((*int32)(code))
	}
	switch {
	case c.mode <= measuring:
		c.least = least + 1 + min(value, 4)
	case !ok && *code == errs.OK:
		c.Fail(errs.New(errs.DeserializeFail, "structpack: decode", "a failed call has the error code 0"))
	}
}

// Variant visits the alternative with an index, of n: walk visits one of them. It decodes the
// index. walk must not keep the index.
func Variant[T any](c *Coder, v *T, index, n int, walk func(v *T, c *Coder, index int)) {
	switch c.mode {
	case encoding:
		c.buf = append(c.buf, byte(index))
		walk(v, c, index)
	case decoding:
		b := c.take(1)
		if b == nil {
			return
		}
		if int(b[0]) >= n {
			c.Fail(errs.New(errs.DeserializeFail, "structpack: decode", "alternative %d of a value that has %d", b[0], n))
			return
		}
		walk(v, c, int(b[0]))
	default:
		c.note1(variantCode)
		before, least := c.least, 0
		for i := range n {
			c.least = 0
			if walk(v, c, i); i == 0 || c.least < least {
				least = c.least
			}
		}
		c.least = before + 1 + least
		c.note1(listEnd)
	}
}
