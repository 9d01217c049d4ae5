package objects

// word holds several small numbers in eight bytes. Each has a place: its lowest bit, and
// its width in bits.
type word uint64

func (w word) get(at, width uint) uint64 { return uint64(w) >> at & (1<<width - 1) }

// put sets a number, of which it takes the lowest bits.
func (w *word) put(at, width uint, v uint64) {
	mask := word(1<<width-1) << at
	*w = *w&^mask | word(v)<<at&mask
}

// The places in object.marks: flags, data type, kind of the checksum, and the number of the
// last event that moved the object in the eviction order, enough of it for a million events
// a second over 500 years.
const (
	flagBits = 3
	typeAt   = flagBits
	typeBits = 4
	kindAt   = typeAt + typeBits
	kindBits = 3
	rankAt   = kindAt + kindBits
	rankBits = 64 - rankAt

	wideKind = 1<<kindBits - 1 // see extra
)

// The places in object.names: the slot, the client that put it and the one that read it last.
const (
	slotAt     = 0
	creatorAt  = slotBits
	readerAt   = creatorAt + clientBits
	clientBits = 20
)

// The numbers of both words fit. This does not compile where they do not.
const _ = uint(64 - readerAt - clientBits)
