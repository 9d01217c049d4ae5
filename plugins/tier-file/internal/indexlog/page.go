// Package indexlog keeps the list of a volume's records in a file, index-N.log, to which pages are
// appended.
//
// The log is a hint. A page that is damaged, or that belongs to another volume, generation or place,
// is skipped: the records that it lists become free space, and a record that it fails to end is
// refused when its space has another one. A page is written once. Nothing is synced but on request.
package indexlog

import (
	"encoding/binary"
	"errors"

	"github.com/mooncake-go/mooncake/sdk/x/crc32c"
)

const (
	// PageSize is the unit of the file, in bytes.
	PageSize = 4096
	// The head of a page: checksum 0, magic 4, bytes used 8, zero 10, volume 16, generation 32,
	// number 40.
	head  = 48
	magic = 0x786d6369 // "icmx"
	// maxKey is the length of the longest key.
	maxKey = 2048

	kindAdd    = 1
	kindForget = 2
)

// Owner is whose log it is.
type Owner struct {
	Volume     [16]byte
	Generation uint64
}

// Event is one entry: a record was written, or is forgotten.
type Event struct {
	// Forget says that the record is forgotten. Address and Sequence alone count then.
	Forget            bool
	Summed            bool
	Sum               uint32
	Address, Sequence uint64
	Epoch, Put, Size  uint64
	Key               []byte
}

// Pages collects events in pages that are not sealed yet. The zero Pages is empty.
type Pages struct {
	buf  []byte
	used int // bytes of the last page; 0 without one
	tmp  []byte
}

// Len returns how many bytes the pages have.
func (p *Pages) Len() int { return len(p.buf) }

// Add appends an event. The key has at most 2048 bytes.
func (p *Pages) Add(e *Event) {
	p.tmp = encode(p.tmp[:0], e)
	if p.used == 0 || p.used+len(p.tmp) > PageSize {
		p.buf = append(p.buf, make([]byte, PageSize)...)
		p.used = head
	}
	page := p.buf[len(p.buf)-PageSize:]
	p.used += copy(page[p.used:], p.tmp)
	binary.LittleEndian.PutUint16(page[8:], uint16(p.used))
}

// Take returns the pages and empties p.
func (p *Pages) Take() []byte {
	b := p.buf
	p.buf, p.used = nil, 0
	return b
}

func encode(b []byte, e *Event) []byte {
	if e.Forget {
		b = append(b, kindForget)
		b = binary.AppendUvarint(b, e.Sequence)
		return binary.AppendUvarint(b, e.Address)
	}
	b = append(b, kindAdd)
	flag := uint64(0)
	if e.Summed {
		flag = 1
	}
	for _, v := range [...]uint64{e.Sequence, e.Address, e.Epoch, e.Put, e.Size, uint64(e.Sum)<<1 | flag, uint64(len(e.Key))} {
		b = binary.AppendUvarint(b, v)
	}
	return append(b, e.Key...)
}

// seal completes pages that get consecutive numbers.
func seal(pages []byte, o Owner, number uint64) {
	le := binary.LittleEndian
	for ; len(pages) >= PageSize; pages, number = pages[PageSize:], number+1 {
		page := pages[:PageSize]
		le.PutUint32(page[4:], magic)
		copy(page[16:], o.Volume[:])
		le.PutUint64(page[32:], o.Generation)
		le.PutUint64(page[40:], number)
		le.PutUint32(page, crc32c.Sum(page[4:]))
	}
}

var errPage = errors.New("not a page of this log")

// decodePage calls do for each event of a page. It accepts hostile input; what it reports before an
// error is void. The key of an event is valid during the call.
func decodePage(page []byte, o Owner, number uint64, do func(*Event)) error {
	le := binary.LittleEndian
	if len(page) < PageSize {
		return errPage
	}
	used := int(le.Uint16(page[8:]))
	if le.Uint32(page[4:]) != magic || le.Uint32(page) != crc32c.Sum(page[4:PageSize]) ||
		[16]byte(page[16:32]) != o.Volume || le.Uint64(page[32:]) != o.Generation || le.Uint64(page[40:]) != number ||
		used < head || used > PageSize {
		return errPage
	}
	for b := page[head:used]; len(b) > 0; {
		e, rest, ok := decode(b)
		if !ok {
			return errPage
		}
		do(&e)
		b = rest
	}
	return nil
}

func decode(b []byte) (e Event, rest []byte, ok bool) {
	kind := b[0]
	r := reader{b: b[1:]}
	switch kind {
	case kindForget:
		e = Event{Forget: true, Sequence: r.next(), Address: r.next()}
	case kindAdd:
		e = Event{Sequence: r.next(), Address: r.next(), Epoch: r.next(), Put: r.next(), Size: r.next()}
		sum, key := r.next(), r.next()
		if r.bad || sum>>1 > 1<<32-1 || key == 0 || key > maxKey || uint64(len(r.b)) < key {
			return e, nil, false
		}
		e.Sum, e.Summed, e.Key = uint32(sum>>1), sum&1 == 1, r.b[:key]
		r.b = r.b[key:]
	default:
		return e, nil, false
	}
	return e, r.b, !r.bad
}

type reader struct {
	b   []byte
	bad bool
}

func (r *reader) next() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.bad = true
		return 0
	}
	r.b = r.b[n:]
	return v
}
