package ledger

import (
	"fmt"
	"sync"
	"time"

	"github.com/mooncake-go/mooncake/core/model"
)

// Memory is where a ledger lies: a memfd as a rule, which outlives the process. The same bytes come
// back, at whatever address, for as long as the memory lives.
type Memory interface {
	// Bytes is the whole memory, aligned to eight bytes. It is valid until Resize.
	Bytes() []byte
	// Resize makes the memory size bytes long; what both sizes have stays.
	Resize(size int) error
}

// placed is a put with the offset of its first extent.
type placed struct {
	offset uint64
	put    Put
}

// Watcher learns what becomes of the puts of a ledger.
type Watcher interface {
	// Settled is called when a batch is applied, for each put that it changed, in the order of their numbers: what it was, Gone
	// for one that is new, and what it is. A master that says again that a put is complete wants it on a storage tier. Settled
	// runs with the ledger locked, so it must be quick and must not call the ledger, which has the batch once it is unlocked.
	Settled(p Put, was, is State)
}

// Log is the ledger of one segment. It is safe for concurrent use.
type Log struct {
	mu     sync.Mutex
	mem    Memory
	id     Identity
	which  uint64 // the area that counts
	area   area
	seq    Seq
	index  index
	starts []uint32 // of the batches since area.before, in the memory
	batch  Batch    // of snapshots
	order  []placed
	guard  *Guard // nil without one
	// watcher learns what batches change, nil for none.
	watcher Watcher
	begun   []change // scratch of settle
	// step, where a test set it, is called after every store that another process could find.
	step func()
}

// Create makes an empty ledger and overwrites what mem holds.
func Create(mem Memory, id Identity) (*Log, error) {
	if len(id.Cluster) > MaxCluster {
		return nil, fmt.Errorf("ledger: the name of the cluster has %d bytes, the most is %d", len(id.Cluster), MaxCluster)
	}
	if len(mem.Bytes()) < headerSize+leastArea {
		if err := mem.Resize(headerSize + leastArea); err != nil {
			return nil, fmt.Errorf("ledger of segment %s: %w", id.Segment, err)
		}
	}
	b := mem.Bytes()
	clear(b[:headerSize]) // First the magic goes: a process that dies here leaves nothing that can be opened.
	a := area{start: headerSize}
	a.put(b, 0)
	id.put(b)
	return &Log{mem: mem, id: id, area: a, index: newIndex()}, nil
}

// Open reads the ledger that mem holds. It returns ErrLayout where another release wrote one that this one cannot
// read, and ErrDamaged where there is none, or bytes are not what was written.
func Open(mem Memory) (*Log, error) {
	b := mem.Bytes()
	id, err := identity(b)
	if err != nil {
		return nil, fmt.Errorf("ledger: %w", err)
	}
	l := &Log{mem: mem, id: id, which: word(b, wordActive).Load() & 1, index: newIndex()}
	l.area = areaAt(b, l.which)
	if err := l.replay(b); err != nil {
		return nil, fmt.Errorf("ledger of segment %s: %w", id.Segment, err)
	}
	return l, nil
}

// replay makes the index from the log.
func (l *Log) replay(b []byte) error {
	a := l.area
	if a.start < headerSize || a.end() < a.start || a.end() > uint64(len(b)) || a.end() > maxLog {
		return fmt.Errorf("%w: its log is said to lie at %d to %d of %d bytes", ErrDamaged, a.start, a.end(), len(b))
	}
	l.seq = a.before
	fence := Epoch(word(b, wordFence).Load())
	for at := a.start; at < a.end(); {
		f, err := parse(b[at:a.end()])
		if err != nil {
			return fmt.Errorf("byte %d: %w", at, err)
		}
		switch {
		case f.seq == 0 && l.seq == a.before && len(l.starts) == 0: // of a rewritten log
		case f.seq != l.seq+1:
			return fmt.Errorf("%w: batch %d follows batch %d", ErrDamaged, f.seq, l.seq)
		case f.epoch > fence:
			return fmt.Errorf("%w: batch %d is of epoch %d, and the highest is %d", ErrDamaged, f.seq, f.epoch, fence)
		default:
			l.seq = f.seq
			l.starts = append(l.starts, uint32(at))
		}
		if err := l.index.apply(&f, at, l.id.Size); err != nil {
			return fmt.Errorf("byte %d: %w", at, err)
		}
		at += uint64(f.size)
	}
	return nil
}

// Identity returns what the ledger belongs to.
func (l *Log) Identity() Identity { return l.id }

// Fenced returns the highest epoch that the ledger has heard of.
func (l *Log) Fenced() Epoch {
	l.mu.Lock()
	defer l.mu.Unlock()
	return Epoch(word(l.mem.Bytes(), wordFence).Load())
}

// Seq returns the number of the last batch.
func (l *Log) Seq() Seq {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.seq
}

// Len returns how many puts the ledger has.
func (l *Log) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.index.count()
}

// Lease is the longest time for which a master of the ledger let readers rely on what lies in the segment.
func (l *Log) Lease() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Duration(word(l.mem.Bytes(), wordLease).Load())
}

// Place says as what the segment was mounted last: by which client, and where it lay in its process. It is zero
// until SetPlace.
type Place struct {
	Client model.ClientID
	Base   uint64
}

// Place returns what SetPlace set, in this process or one before it.
func (l *Log) Place() Place {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.mem.Bytes()
	return Place{Client: model.ClientID{Hi: word(b, wordClient).Load(), Lo: word(b, wordClient+8).Load()}, Base: word(b, wordBase).Load()}
}

// SetPlace sets the place.
func (l *Log) SetPlace(p Place) {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.mem.Bytes()
	word(b, wordClient).Store(p.Client.Hi)
	word(b, wordClient+8).Store(p.Client.Lo)
	word(b, wordBase).Store(p.Base)
}

// Fence refuses from now on what masters before epoch e append, and returns the number of the last batch.
// lease is how long readers may rely on what the master of e tells them. Fence returns ErrFenced where the
// ledger knows a higher epoch.
func (l *Log) Fence(e Epoch, lease time.Duration) (Seq, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	w := word(l.mem.Bytes(), wordFence)
	if have := Epoch(w.Load()); e < have {
		return l.seq, l.fenced(e, have)
	}
	if longest := word(l.mem.Bytes(), wordLease); longest.Load() < uint64(max(lease, 0)) {
		longest.Store(uint64(lease))
	}
	w.Store(uint64(e))
	l.stepped()
	return l.seq, nil
}

func (l *Log) fenced(e, have Epoch) error {
	return fmt.Errorf("ledger of segment %s: %w: epoch %d comes after %d", l.id.Segment, ErrFenced, have, e)
}

// Append applies one batch that Batch.Bytes made, and returns the number of the last one. A batch that
// was applied before is applied no second time. Append returns ErrFenced where a later epoch has fenced
// the ledger, ErrGap where this one has not, or batches before this one are missing, ErrDamaged where the
// batch contradicts itself or the ledger, and ErrFull. After an error the ledger is as it was.
func (l *Log) Append(batch []byte) (Seq, error) {
	f, err := parse(batch)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		return l.seq, fmt.Errorf("ledger of segment %s: %w", l.id.Segment, err)
	}
	have := Epoch(word(l.mem.Bytes(), wordFence).Load())
	switch {
	case f.size != len(batch):
		return l.seq, fmt.Errorf("ledger of segment %s: %w: %d bytes follow a batch", l.id.Segment, ErrDamaged, len(batch)-f.size)
	case f.epoch < have:
		return l.seq, l.fenced(f.epoch, have)
	case f.epoch > have || f.seq > l.seq+1:
		return l.seq, fmt.Errorf("ledger of segment %s: %w: batch %d of epoch %d, after %d of %d", l.id.Segment, ErrGap, f.seq, f.epoch, l.seq, have)
	case f.seq == 0:
		return l.seq, fmt.Errorf("ledger of segment %s: %w: a batch has no number", l.id.Segment, ErrDamaged)
	case f.seq <= l.seq:
		return l.seq, nil
	}
	if err := l.room(uint64(f.size)); err != nil {
		return l.seq, fmt.Errorf("ledger of segment %s: %w", l.id.Segment, err)
	}
	at := l.area.end()
	if err := l.index.apply(&f, at, l.id.Size); err != nil {
		return l.seq, fmt.Errorf("ledger of segment %s: batch %d: %w", l.id.Segment, f.seq, err)
	}
	b := l.mem.Bytes()
	copy(b[at:], batch)
	l.stepped()
	l.area.length += uint64(f.size)
	lengthWord(b, l.which).Store(l.area.length)
	l.stepped()
	l.settle()
	l.seq = f.seq
	l.starts = append(l.starts, uint32(at))
	return l.seq, nil
}

// SetGuard makes a guard follow the ledger. The puts that it had of another one are gone.
func (l *Log) SetGuard(g *Guard) {
	l.mu.Lock()
	defer l.mu.Unlock()
	g.mu.Lock()
	defer g.mu.Unlock()
	for p := range g.puts {
		g.end(p, true)
	}
	g.of, l.guard = l, g
	for p, m := range l.index.writing {
		l.admit(p, m)
	}
}

// admit lets an unfinished put write, unless its record is damaged by now, which Snapshot finds. The caller
// holds the locks of ledger and guard.
func (l *Log) admit(p Put, m mark) {
	c := cursor{extents: l.index.scratch}
	if _, o, err := l.object(&c, p, m); err == nil {
		l.guard.begin(p, o.Extents)
	}
	l.index.scratch = c.extents
}

// settle tells watcher and guard what the last batch changed. For the guard puts end before others begin: a put may
// get memory in the batch that frees it.
func (l *Log) settle() {
	g := l.guard
	if g == nil && l.watcher == nil {
		return
	}
	changes := l.index.settled()
	if l.watcher != nil {
		for _, c := range changes {
			l.watcher.Settled(c.put, c.was.state, c.is.state)
		}
	}
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.of != l { // Another ledger took its place.
		return
	}
	begun := l.begun[:0]
	for _, c := range changes {
		if c.is.state == Complete && c.is.unsure {
			g.expect(c.put)
		} else if c.is.state != Writing {
			g.end(c.put, c.is.state == 0)
		} else if c.was.state != Writing {
			begun = append(begun, c)
		}
	}
	l.begun = begun
	for _, c := range begun {
		l.admit(c.put, c.is)
	}
}

// Since returns the batches after s, of about most bytes in all and at least one, and the number of the last of
// them. It returns ErrGap where they were rewritten since: the caller takes a Snapshot then.
func (l *Log) Since(s Seq, most int) ([]byte, Seq, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s < l.area.before || s > l.seq {
		return nil, l.seq, fmt.Errorf("ledger of segment %s: %w: batches after %d are asked for, it has %d to %d",
			l.id.Segment, ErrGap, s, l.area.before+1, l.seq)
	}
	if s == l.seq {
		return nil, s, nil
	}
	starts := l.starts[s-l.area.before:]
	from, to := uint64(starts[0]), l.area.end()
	for _, at := range starts[1:] {
		s++
		if uint64(at)-from >= uint64(most) {
			return append([]byte(nil), l.mem.Bytes()[from:at]...), s, nil
		}
	}
	return append([]byte(nil), l.mem.Bytes()[from:to]...), l.seq, nil
}

func (l *Log) stepped() {
	if l.step != nil {
		l.step()
	}
}
