package mastercodec

import (
	"encoding/binary"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// The functions here read one field whose tag is behind. They return what follows it, nil
// where the message is one for package proto. A column that comes in several pieces, which
// the format allows, is put together.

// block returns the bytes of a field with a length, nil for none.
func block(b []byte) (content, rest []byte) {
	content, n := protowire.ConsumeBytes(b)
	if n < 0 {
		return nil, nil
	}
	return content, b[n:]
}

// keysAhead counts the keys that follow each other, and their bytes.
func keysAhead(b []byte, tag byte) (n, size int) {
	for {
		k, rest := block(b)
		if rest == nil {
			return n, size
		}
		n++
		size += len(k)
		if len(rest) == 0 || rest[0] != tag {
			return n, size
		}
		b = rest[1:]
	}
}

// readKeys reads keys that follow each other. They share one allocation unless each is to
// have its own.
func readKeys(dst *[][]byte, b []byte, tag byte, own bool) []byte {
	n, size := keysAhead(b, tag)
	if n == 0 {
		return nil
	}
	keys := *dst
	if keys == nil {
		keys = make([][]byte, 0, n)
	}
	var all []byte
	if !own {
		all = make([]byte, 0, size)
	}
	for i := range n {
		if i > 0 {
			b = b[1:] // the tag
		}
		k, rest := block(b)
		if own {
			all = make([]byte, 0, len(k))
		}
		head := len(all)
		all = append(all, k...)
		keys = append(keys, all[head:len(all):len(all)])
		b = rest
	}
	*dst = keys
	return b
}

// room returns a column that n entries can be appended to.
func room[T any](column []T, n int) []T {
	if column == nil {
		return make([]T, 0, n)
	}
	return slices.Grow(column, n)
}

// readVarints reads a column of varints.
func readVarints[T integer](dst *[]T, b []byte) []byte {
	content, rest := block(b)
	if rest == nil {
		return nil
	}
	column := *dst
	if cap(column)-len(column) < len(content) { // An entry takes a byte at least.
		n := 0
		for _, c := range content {
			if c < 0x80 { // the last byte of an entry
				n++
			}
		}
		column = room(column, n)
	}
	for len(content) > 0 {
		if c := content[0]; c < 0x80 {
			column, content = append(column, T(c)), content[1:]
			continue
		}
		v, n := protowire.ConsumeVarint(content)
		if n < 0 {
			return nil
		}
		column, content = append(column, T(v)), content[n:]
	}
	*dst = column
	return rest
}

// readFixed reads a column of entries of eight bytes.
func readFixed(dst *[]uint64, b []byte) []byte {
	content, rest := block(b)
	if rest == nil || len(content)%8 != 0 {
		return nil
	}
	column := room(*dst, len(content)/8)
	for ; len(content) > 0; content = content[8:] {
		column = append(column, binary.LittleEndian.Uint64(content))
	}
	*dst = column
	return rest
}

// readFixed32 reads a column of entries of four bytes.
func readFixed32(dst *[]uint32, b []byte) []byte {
	content, rest := block(b)
	if rest == nil || len(content)%4 != 0 {
		return nil
	}
	column := room(*dst, len(content)/4)
	for ; len(content) > 0; content = content[4:] {
		column = append(column, binary.LittleEndian.Uint32(content))
	}
	*dst = column
	return rest
}

// readBools reads a column of bytes that are 0 or 1.
func readBools(dst *[]bool, b []byte) []byte {
	content, rest := block(b)
	if rest == nil {
		return nil
	}
	column := *dst
	if column == nil {
		column = make([]bool, 0, len(content))
	}
	for _, c := range content {
		if c > 1 {
			return nil
		}
		column = append(column, c == 1)
	}
	*dst = column
	return rest
}

// readMessage reads a field that is a message. One that comes twice is merged.
func readMessage[T any, M message[T]](dst *M, b []byte) []byte {
	content, rest := block(b)
	if rest == nil {
		return nil
	}
	if *dst == nil {
		*dst = new(T)
	}
	if err := (proto.UnmarshalOptions{Merge: true}).Unmarshal(content, *dst); err != nil {
		return nil
	}
	return rest
}

// readElement reads an entry of a list of messages.
func readElement[T any, M message[T]](dst *[]M, b []byte) []byte {
	var m M
	if b = readMessage(&m, b); b != nil {
		*dst = append(*dst, m)
	}
	return b
}
