package reference

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"maps"
	"sync"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/tier"
)

// Backing is the storage beneath tiers: what a disk is to others. It is safe for concurrent use, and
// several tiers may use it at once.
type Backing struct {
	id       [16]byte
	capacity uint64

	mu         sync.Mutex
	generation uint64
	last       uint64 // the number of the newest record
	used       uint64 // by records that are there, and by those that are read and were forgotten
	records    map[tier.Locator]*record
	flushed    map[tier.Locator]*record
	hung       chan struct{} // closed when the storage responds
	broken     bool
}

// record is one value. Its data do not change while tiers run.
type record struct {
	tier.Record
	data      []byte
	readers   int
	forgotten bool
}

// NewBacking returns an empty volume.
func NewBacking(capacity uint64) *Backing {
	b := &Backing{capacity: capacity, records: map[tier.Locator]*record{}, flushed: map[tier.Locator]*record{}, hung: make(chan struct{})}
	_, _ = rand.Read(b.id[:]) // It never fails.
	close(b.hung)
	return b
}

// Damage flips a bit of a record that has this value. It reports whether there is one.
func (b *Backing) Damage(value []byte) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, r := range b.records {
		if bytes.Equal(r.data, value) {
			r.data = bytes.Clone(r.data)
			r.data[len(r.data)/2] ^= 1
			return true
		}
	}
	return false
}

// Hang makes the storage stop responding until resume is called.
func (b *Backing) Hang() (resume func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	hung := make(chan struct{})
	b.hung = hung
	return sync.OnceFunc(func() { close(hung) })
}

// Fail makes reads and writes fail until repair is called.
func (b *Backing) Fail() (repair func()) {
	b.setBroken(true)
	return func() { b.setBroken(false) }
}

func (b *Backing) setBroken(broken bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.broken = broken
}

// Crash drops what was not flushed, as the crash of a machine does. No tier may use the storage any
// more.
func (b *Backing) Crash() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.records, b.used = maps.Clone(b.flushed), 0
	for _, r := range b.records {
		r.readers, r.forgotten = 0, false
		b.used += space(r.Record)
	}
}

// responds is closed while the storage responds.
func (b *Backing) responds() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.hung
}

func (b *Backing) flush() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.flushed = maps.Clone(b.records)
}

func (b *Backing) wipe() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for at := range b.records {
		b.drop(at)
	}
	b.generation++
	b.flushed = map[tier.Locator]*record{}
}

func (b *Backing) forget(at []tier.Locator) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, l := range at {
		b.drop(l)
	}
}

// drop forgets a record, if it is there. The caller holds b.mu.
func (b *Backing) drop(at tier.Locator) {
	r := b.records[at]
	if r == nil {
		return
	}
	delete(b.records, at)
	if r.forgotten = true; r.readers == 0 {
		b.used -= space(r.Record)
	}
}

// open finds a record for a reader, which calls done.
func (b *Backing) open(want tier.Record, at tier.Locator) (*record, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.broken {
		return nil, failed(errs.FileReadFail, errs.ClassLocalDevice, "the storage is broken")
	}
	r := b.records[at]
	if r == nil || !bytes.Equal(r.Key, want.Key) || r.Version != want.Version || r.Size != want.Size || (r.Summed && want.Summed && r.Sum != want.Sum) {
		return nil, failed(errs.ObjectNotFound, errs.ClassPermanent, "this record of %d bytes is not at the locator", want.Size)
	}
	r.readers++
	return r, nil
}

func (b *Backing) done(r *record) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if r.readers--; r.readers == 0 && r.forgotten {
		b.used -= space(r.Record)
	}
}

// keep adds a record that was submitted in a generation.
func (b *Backing) keep(r *record, generation uint64) (tier.Locator, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.broken:
		return tier.Locator{}, failed(errs.FileWriteFail, errs.ClassLocalDevice, "the storage is broken")
	case b.generation != generation:
		return tier.Locator{}, failed(errs.UnavailableInCurrentStatus, errs.ClassUnknown, "the volume was wiped")
	case b.capacity-b.used < space(r.Record):
		return tier.Locator{}, failed(errs.NoAvailableHandle, errs.ClassUnknown, "%d of %d bytes are used", b.used, b.capacity)
	}
	b.last++
	at := tier.Locator{binary.LittleEndian.Uint64(b.id[:]), b.last}
	b.records[at] = r
	b.used += space(r.Record)
	return at, nil
}

// overhead is what a record takes besides its key and its value, in bytes.
const overhead = 64

func space(r tier.Record) uint64 { return overhead + uint64(len(r.Key)) + r.Size }

func failed(code errs.Code, class errs.Class, format string, args ...any) error {
	return errs.WithClass(class, "reference", errs.New(code, "", format, args...))
}
