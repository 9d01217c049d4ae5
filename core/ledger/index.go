package ledger

import (
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/mooncake-go/mooncake/core/model"
)

// mark is what the index knows of a put: where in the memory its records lie, behind the kind and the put.
type mark struct {
	begin, commit uint32 // commit is 0 before the put is complete
	bytes         uint32 // of its records, as far as they count
	epoch         uint16 // an index of index.epochs
	state         State
	unsure        bool // the put's writer did not wait for its bytes to arrive
}

// index is the state that the records of a log lead to. It is on the heap and can be made anew from the log.
type index struct {
	// writing are the puts that are not complete, which are few; others are the rest.
	writing, others map[Put]mark
	// last is at least the highest put. Masters number puts upwards, so that a put that begins is not looked up.
	last   Put
	epochs []Epoch
	// staged are the changes of the batch that is being applied; the zero mark stands for a put that is gone.
	staged map[Put]mark
	// live and stagedLive are the bytes of all marks, and what the staged ones add to them.
	live, stagedLive int
	scratch          []Extent
}

func newIndex() index {
	return index{writing: map[Put]mark{}, others: map[Put]mark{}, staged: map[Put]mark{}}
}

// clone returns a copy without what is staged.
func (x *index) clone() index {
	return index{writing: maps.Clone(x.writing), others: maps.Clone(x.others), last: x.last, epochs: slices.Clone(x.epochs)}
}

// count returns how many puts there are.
func (x *index) count() int { return len(x.writing) + len(x.others) }

// all are the puts. The mark of the put that was yielded may be set.
func (x *index) all() iter.Seq2[Put, mark] {
	return func(yield func(Put, mark) bool) {
		for _, puts := range []map[Put]mark{x.writing, x.others} {
			for p, m := range puts {
				if !yield(p, m) {
					return
				}
			}
		}
	}
}

// get returns the mark of a put after the staged changes.
func (x *index) get(p Put) (mark, bool) {
	if m, ok := x.staged[p]; ok {
		return m, m.state != 0
	}
	return x.settled(p)
}

// settled returns the mark of a put before the staged changes.
func (x *index) settled(p Put) (m mark, ok bool) {
	if p > x.last {
		return mark{}, false
	}
	if m, ok = x.writing[p]; !ok {
		m, ok = x.others[p]
	}
	return m, ok
}

// set sets the mark of a put; the zero mark removes it.
func (x *index) set(p Put, m mark) {
	if m.state == Writing {
		x.writing[p] = m
		x.last = max(x.last, p)
		return
	}
	delete(x.writing, p)
	if m.state == 0 {
		delete(x.others, p)
		return
	}
	x.others[p] = m
	x.last = max(x.last, p)
}

// epoch returns the index of an epoch. Epochs are few: one for each master that wrote here and whose puts
// are still there.
func (x *index) epoch(e Epoch) (uint16, error) {
	for i := len(x.epochs) - 1; i >= 0; i-- {
		if x.epochs[i] == e {
			return uint16(i), nil
		}
	}
	if len(x.epochs) == 1<<16 {
		return 0, fmt.Errorf("%w: it has puts of %d epochs", ErrFull, len(x.epochs))
	}
	x.epochs = append(x.epochs, e)
	return uint16(len(x.epochs) - 1), nil
}

// stage checks the records of a batch, which is to lie at base, and keeps their effects for settle. size
// is that of the segment.
func (x *index) stage(f *frame, base uint64, size uint64) error {
	x.unstage()
	rewritten := f.seq == 0
	return f.each(&x.scratch, func(r *record) error {
		m, known := x.get(r.put)
		at := uint32(base + frameSize + uint64(r.at))
		stage := func(to mark) error {
			if to.state != 0 {
				to.bytes = m.bytes + uint32(r.size)
			}
			x.stagedLive += int(to.bytes) - int(m.bytes)
			x.staged[r.put] = to
			return nil
		}
		switch r.kind {
		case kindBegin:
			for _, e := range r.object.Extents {
				if e.End() > size {
					return fmt.Errorf("%w: put %d lies at %d to %d of a segment of %d bytes", ErrDamaged, r.put, e.Offset, e.End(), size)
				}
			}
			if known {
				return fmt.Errorf("%w: put %d begins twice", ErrDamaged, r.put)
			}
			if !rewritten && r.version.Epoch != f.epoch {
				return fmt.Errorf("%w: put %d of epoch %d begins in a batch of epoch %d", ErrDamaged, r.put, r.version.Epoch, f.epoch)
			}
			e, err := x.epoch(r.version.Epoch)
			if err != nil {
				return err
			}
			return stage(mark{begin: at, epoch: e, state: Writing})
		case kindCommit:
			if known && m.state <= Complete {
				to := m
				to.commit, to.state = at, Complete
				to.unsure = r.ending.Checksum == model.Checksum{Value: Unacknowledged}
				return stage(to)
			}
		case kindUnlink:
			if known && m.state <= Complete {
				to := m
				to.state = Held
				return stage(to)
			}
		case kindGone:
			if known {
				return stage(mark{})
			}
		}
		return fmt.Errorf("%w: a record of kind %d for put %d, which is %s", ErrDamaged, r.kind, r.put, m.state)
	})
}

func (x *index) unstage() {
	clear(x.staged)
	x.stagedLive = 0
}

// settle applies what was staged.
func (x *index) settle() {
	for p, m := range x.staged {
		x.set(p, m)
	}
	x.live += x.stagedLive
	x.unstage()
}

// shift moves all positions by d bytes.
func (x *index) shift(d int64) {
	for p, m := range x.all() {
		m.begin = uint32(int64(m.begin) + d)
		if m.commit != 0 {
			m.commit = uint32(int64(m.commit) + d)
		}
		x.set(p, m)
	}
}

// String is for messages.
func (s State) String() string {
	switch s {
	case Writing:
		return "being written"
	case Complete:
		return "complete"
	case Held:
		return "held"
	}
	return "not there"
}
