package msgpack

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
)

// maxDepth bounds how deep values may be nested.
const maxDepth = 16

// Decode reads one value: nil, int64, uint64 (only where it does not fit into an int64),
// string, []any, or map[string]any, whose names must be different strings. What follows the
// value is an error, and so is any other type. It takes no more memory than a small multiple
// of the input.
func Decode(data []byte) (any, error) {
	d := decoder{rest: data}
	v, err := d.value(0)
	if err == nil && len(d.rest) > 0 {
		err = fmt.Errorf("%d bytes follow the value", len(d.rest))
	}
	if err != nil {
		return nil, fmt.Errorf("msgpack: %w", err)
	}
	return v, nil
}

type decoder struct{ rest []byte }

func (d *decoder) take(n uint64) ([]byte, error) {
	if n > uint64(len(d.rest)) {
		return nil, io.ErrUnexpectedEOF
	}
	out := d.rest[:n]
	d.rest = d.rest[n:]
	return out, nil
}

// number reads a big-endian number of 1, 2, 4 or 8 bytes.
func (d *decoder) number(bytes uint64) (uint64, error) {
	b, err := d.take(bytes)
	if err != nil {
		return 0, err
	}
	var full [8]byte
	copy(full[8-bytes:], b)
	return binary.BigEndian.Uint64(full[:]), nil
}

func (d *decoder) value(depth int) (any, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("values are nested deeper than %d", maxDepth)
	}
	head, err := d.take(1)
	if err != nil {
		return nil, err
	}
	switch c := head[0]; {
	case c < 0x80, c >= 0xe0:
		return int64(int8(c)), nil //nolint:gosec // the sign is meant
	case c < 0x90:
		return d.pairs(uint64(c&0x0f), depth)
	case c < 0xa0:
		return d.array(uint64(c&0x0f), depth)
	case c < 0xc0:
		return d.text(uint64(c & 0x1f))
	case c == 0xc0:
		return nil, nil //nolint:nilnil // the value is nil
	case c >= 0xcc && c <= 0xcf:
		n, err := d.number(1 << (c - 0xcc))
		if n > math.MaxInt64 {
			return n, err
		}
		return int64(n), err //nolint:gosec // just compared
	case c >= 0xd0 && c <= 0xd3:
		bytes := uint64(1) << (c - 0xd0)
		n, err := d.number(bytes)
		unused := 64 - 8*bytes
		return int64(n<<unused) >> unused, err //nolint:gosec // the sign is meant
	case c >= 0xd9 && c <= 0xdf:
		return d.long(c, depth)
	default:
		return nil, fmt.Errorf("type %#02x is not among those in use", c)
	}
}

// long reads what has its length in bytes of its own.
func (d *decoder) long(c byte, depth int) (any, error) {
	bytes := map[byte]uint64{0xd9: 1, 0xda: 2, 0xdb: 4, 0xdc: 2, 0xdd: 4, 0xde: 2, 0xdf: 4}[c]
	n, err := d.number(bytes)
	switch {
	case err != nil:
		return nil, err
	case c <= 0xdb:
		return d.text(n)
	case c <= 0xdd:
		return d.array(n, depth)
	}
	return d.pairs(n, depth)
}

func (d *decoder) text(n uint64) (any, error) {
	b, err := d.take(n)
	return string(b), err
}

func (d *decoder) array(n uint64, depth int) (any, error) {
	if n > uint64(len(d.rest)) { // each value has a byte at least
		return nil, io.ErrUnexpectedEOF
	}
	out := make([]any, n)
	for i := range out {
		v, err := d.value(depth + 1)
		if err != nil {
			return nil, err
		}
		out[i] = v
	}
	return out, nil
}

func (d *decoder) pairs(n uint64, depth int) (any, error) {
	if 2*n > uint64(len(d.rest)) {
		return nil, io.ErrUnexpectedEOF
	}
	out := make(map[string]any, n)
	for range n {
		name, err := d.value(depth + 1)
		if err != nil {
			return nil, err
		}
		s, ok := name.(string)
		if _, twice := out[s]; !ok || twice {
			return nil, fmt.Errorf("%.40q names a value; names are different strings", fmt.Sprint(name))
		}
		if out[s], err = d.value(depth + 1); err != nil {
			return nil, err
		}
	}
	return out, nil
}
