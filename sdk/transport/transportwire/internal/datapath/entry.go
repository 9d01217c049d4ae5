package datapath

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
	"github.com/mooncake-go/mooncake/sdk/x/shm"
)

// The sizes of the entries in bytes.
const (
	submissionSize = 64
	// grantedSize is that of a submission for a plugin that carries grants.
	grantedSize    = submissionSize + transport.GrantSize
	completionSize = 256
	// completionHead is all that a completion without an error has.
	completionHead = 16
	// maxText is the longest text of an error in a completion.
	maxText = completionSize - completionHead
)

// MaxSlots is the most operations that can be in flight on a path.
const MaxSlots = shm.MaxEntries

// RingBytes returns the size of the memory file of a path whose submissions have entry bytes, and the offset of the ring of
// completions in it.
func RingBytes(slots, entry int) (size, completions int) {
	completions = submissions(slots, entry).Bytes()
	return completions + completed(slots).Bytes(), completions
}

// entrySize returns the size of a submission.
func entrySize(grants bool) int {
	if grants {
		return grantedSize
	}
	return submissionSize
}

func submissions(slots, entry int) shm.Layout {
	return shm.Layout{Entries: slots, EntrySize: entry}
}

func completed(slots int) shm.Layout {
	return shm.Layout{Entries: slots, EntrySize: completionSize}
}

// tag names an operation in flight: the slot in the lower half, its generation in the upper half.
type tag uint64

func newTag(slot, generation uint32) tag { return tag(slot) | tag(generation)<<32 }
func (t tag) slot() uint32               { return uint32(t) }
func (t tag) generation() uint32         { return uint32(t >> 32) }

// place is where the local memory of an operation is.
type place uint8

const (
	// inRegion: at local in the region with the handle region.
	inRegion place = iota
	// inStage: at local in the stage.
	inStage
	// inHost: as inStage, and the plugin copies from or to the address of the host in region.
	inHost
)

// submission is an entry of the first ring.
type submission struct {
	tag    tag
	region uint64
	local  uint64
	length uint64
	remote transport.RemoteID
	offset uint64
	// limit is the time until the deadline, counted from when the entry is read; never 0.
	limit time.Duration
	rail  transport.RailID
	kind  transport.OpKind
	place place
	grant *transport.Grant // nil for none
}

// encode fills b, which has the size of a submission. One that is too small leaves the grant out.
func (s *submission) encode(b []byte) {
	e := binary.NativeEndian
	e.PutUint64(b[0:], uint64(s.tag))
	e.PutUint64(b[8:], s.region)
	e.PutUint64(b[16:], s.local)
	e.PutUint64(b[24:], s.length)
	e.PutUint64(b[32:], uint64(s.remote))
	e.PutUint64(b[40:], s.offset)
	e.PutUint64(b[48:], uint64(s.limit))
	e.PutUint16(b[56:], uint16(s.rail))
	b[58], b[59] = byte(s.kind), byte(s.place)
	e.PutUint32(b[60:], 0)
	if len(b) == grantedSize && s.grant != nil {
		e.PutUint32(b[60:], withGrant)
		copy(b[submissionSize:], s.grant[:])
	}
}

// withGrant marks an entry with a grant.
const withGrant = 1

func decodeSubmission(b []byte) (submission, error) {
	e := binary.NativeEndian
	s := submission{
		tag: tag(e.Uint64(b[0:])), region: e.Uint64(b[8:]), local: e.Uint64(b[16:]), length: e.Uint64(b[24:]),
		remote: transport.RemoteID(e.Uint64(b[32:])), offset: e.Uint64(b[40:]), limit: time.Duration(e.Uint64(b[48:])),
		rail: transport.RailID(e.Uint16(b[56:])), kind: transport.OpKind(b[58]), place: place(b[59]),
	}
	mark := e.Uint32(b[60:])
	if mark == withGrant && len(b) == grantedSize {
		s.grant, mark = (*transport.Grant)(slices.Clone(b[submissionSize:])), 0
	}
	switch {
	case s.kind != transport.Read && s.kind != transport.Write:
		return s, fmt.Errorf("operation of kind %d", s.kind)
	case s.place > inHost:
		return s, fmt.Errorf("local memory of kind %d", s.place)
	case s.length > math.MaxInt64:
		return s, fmt.Errorf("%d bytes", s.length)
	case s.limit <= 0:
		return s, fmt.Errorf("a time limit of %d", s.limit)
	case mark != 0:
		return s, fmt.Errorf("an entry of another version (%#x)", mark)
	}
	return s, nil
}

// Failure is the encoded form of an error.
type Failure struct {
	Code  errs.Code
	Class errs.Class
	Text  string
}

// completion is an entry of the second ring.
type completion struct {
	tag    tag
	status transport.Status
	Failure
}

// encode returns the part of b that is in use.
func (c *completion) encode(b *[completionSize]byte) []byte {
	e := binary.NativeEndian
	e.PutUint64(b[0:], uint64(c.tag))
	n := copy(b[completionHead:], c.Text)
	b[8], b[9] = byte(c.status), byte(c.Class)
	e.PutUint16(b[10:], uint16(n))
	e.PutUint32(b[12:], uint32(c.Code))
	return b[:completionHead+n]
}

// decodeHead decodes a completion without its text; text is the length of the text.
func decodeHead(b []byte) (c completion, text int, err error) {
	e := binary.NativeEndian
	c = completion{
		tag: tag(e.Uint64(b[0:])), status: transport.Status(b[8]),
		Failure: Failure{Code: errs.Code(int32(e.Uint32(b[12:]))), Class: errs.Class(b[9])},
	}
	text = int(e.Uint16(b[10:]))
	switch {
	case c.status == transport.OK && (c.Code != 0 || c.Class != 0 || text != 0):
		return c, 0, fmt.Errorf("a completion that says OK has the error %d", c.Code)
	case c.status != transport.OK && c.status != transport.Failed && c.status != transport.Quarantined:
		return c, 0, fmt.Errorf("a completion has the unknown status %d", c.status)
	case c.status != transport.OK && (c.Code >= 0 || c.Class > errs.ClassPermanent):
		return c, 0, fmt.Errorf("a failed completion has the code %d and the class %d", c.Code, uint8(c.Class))
	case text > maxText:
		return c, 0, fmt.Errorf("a completion has %d bytes of text", text)
	}
	return c, text, nil
}
