package structpack

import (
	"bytes"
	"crypto/md5" // The protocol names types and functions by it.
	"encoding/binary"
	"math"
	"sync"

	"github.com/mooncake-go/mooncake/sdk/errs"
)

// Bits of the byte that follows a hash whose lowest bit is set. Two lower bits say how wide the
// size of the whole message is, which types with later additions have.
const (
	sizeMask     = 0x03
	literalBit   = 0x04
	widthShift   = 3
	widthMask    = 0x03
	metainfoFlag = 1 // of the hash
)

// Schema is the shape of a message in one version.
type Schema struct {
	Version Version
	Hash    uint32 // the lowest bit is 0
	Literal string
}

// Describe computes the schema of a message, whose walk visits any value.
func Describe[T any](v Version, walk func(*T, *Coder)) Schema {
	c := Coder{mode: describing, version: v}
	walk(new(T), &c)
	return Schema{Version: v, Hash: Name(string(c.buf)) &^ metainfoFlag, Literal: string(c.buf)}
}

// Name returns the number by which the protocol calls a function of that qualified name. The hash
// of a type is that of its literal, without the lowest bit.
func Name(name string) uint32 {
	digest := md5.Sum([]byte(name))
	return binary.BigEndian.Uint32(digest[:])
}

// Message is a message whose head has been read.
type Message struct {
	Hash    uint32 // the lowest bit is 0
	Literal []byte // nil if the sender left it out
	Payload []byte
	width   uint8
}

// Open reads the head of a message. The message refers to b.
func Open(b []byte) (Message, error) {
	short := func(of string) (Message, error) {
		return Message{}, errs.New(errs.DeserializeFail, "structpack: read the head of a message", "%d bytes end inside %s", len(b), of)
	}
	if len(b) < 4 {
		return short("the hash")
	}
	word := binary.LittleEndian.Uint32(b)
	m := Message{Hash: word &^ metainfoFlag, Payload: b[4:], width: 1}
	if word&metainfoFlag == 0 {
		return m, nil
	}
	if len(m.Payload) == 0 {
		return short("the metainfo")
	}
	info := m.Payload[0]
	m.width = 1 << (info >> widthShift & widthMask)
	size := 1 << (info & sizeMask) &^ 1 // bytes of the size of the message, of which nothing depends
	if len(m.Payload) < 1+size {
		return short("the size")
	}
	m.Payload = m.Payload[1+size:]
	if info&literalBit != 0 {
		end := bytes.IndexByte(m.Payload, 0)
		if end < 0 {
			return short("the literal")
		}
		m.Literal, m.Payload = m.Payload[:end], m.Payload[end+1:]
	}
	return m, nil
}

var coders = sync.Pool{New: func() any { return new(Coder) }}

// Decode decodes the payload of a message whose hash is that of the type in version v. It allocates
// a small multiple of the payload at most, whatever the counts in it say. Bytes after the value are
// ignored. After an error, value is in no defined state.
func Decode[T any](m Message, v Version, value *T, walk func(*T, *Coder)) error {
	c := coders.Get().(*Coder)
	defer release(c)
	*c = Coder{mode: decoding, version: v, width: m.width, buf: m.Payload}
	walk(value, c)
	return c.err
}

// Append encodes a message and appends it to out, with the literal if asked. The counts are as wide
// as the largest needs. After an error, out is returned as it was.
func Append[T any](out []byte, s *Schema, literal bool, value *T, walk func(*T, *Coder)) ([]byte, error) {
	c := coders.Get().(*Coder)
	defer release(c)
	for class := uint8(0); ; {
		*c = Coder{mode: encoding, version: s.Version, width: 1 << class, buf: appendHead(out, s, literal, class)}
		if walk(value, c); c.err != nil {
			return out, c.err
		}
		need := widthClass(c.largest)
		if need <= class {
			return c.buf, nil
		}
		class, out = need, c.buf[:len(out)] // Again, with wider counts.
	}
}

func release(c *Coder) {
	*c = Coder{}
	coders.Put(c)
}

func appendHead(out []byte, s *Schema, literal bool, class uint8) []byte {
	info := class << widthShift
	if literal {
		info |= literalBit
	}
	if info == 0 {
		return binary.LittleEndian.AppendUint32(out, s.Hash)
	}
	out = append(binary.LittleEndian.AppendUint32(out, s.Hash|metainfoFlag), info)
	if literal {
		out = append(append(out, s.Literal...), 0)
	}
	return out
}

func widthClass(count uint64) uint8 {
	switch {
	case count <= math.MaxUint8:
		return 0
	case count <= math.MaxUint16:
		return 1
	case count <= math.MaxUint32:
		return 2
	}
	return 3
}
