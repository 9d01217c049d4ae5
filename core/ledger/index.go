package ledger

import (
	"cmp"
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
	// changes are those of the last batch, in its order. sorted says that no put follows a higher one.
	changes []change
	sorted  bool
	// live is the bytes of all marks.
	live    int
	scratch []Extent
}

// change is what a batch makes of a put; the zero mark stands for a put that is not there.
type change struct {
	put     Put
	was, is mark
}

// keptChanges bounds the memory for changes that outlives a batch.
const keptChanges = 1 << 14

func newIndex() index {
	return index{writing: map[Put]mark{}, others: map[Put]mark{}}
}

// clone returns a copy without the changes.
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

// get returns the mark of a put.
func (x *index) get(p Put) (m mark, ok bool) {
	if p > x.last {
		return mark{}, false
	}
	if m, ok = x.writing[p]; !ok {
		m, ok = x.others[p]
	}
	return m, ok
}

// set replaces the mark of a put; the zero mark is that of a put which is not there.
func (x *index) set(p Put, was, is mark) {
	if from := x.holds(was.state); from != nil && (is.state == 0 || (was.state == Writing) != (is.state == Writing)) {
		delete(from, p)
	}
	if to := x.holds(is.state); to != nil {
		to[p] = is
		x.last = max(x.last, p)
	}
}

// holds returns the map of the puts in a state, nil for those that are not there.
func (x *index) holds(s State) map[Put]mark {
	switch s {
	case 0:
		return nil
	case Writing:
		return x.writing
	}
	return x.others
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

// apply checks the records of a batch, which is to lie at base, and applies them; changes has their effects. After
// an error the index is as it was. size is that of the segment.
func (x *index) apply(f *frame, base uint64, size uint64) error {
	if cap(x.changes) > keptChanges {
		x.changes = nil
	}
	x.changes, x.sorted = x.changes[:0], true
	rewritten := f.seq == 0
	err := f.each(&x.scratch, func(r *record) error {
		m, known := x.get(r.put)
		at := uint32(base + frameSize + uint64(r.at))
		change := func(to mark) error {
			if to.state != 0 {
				to.bytes = m.bytes + uint32(r.size)
			}
			x.change(r.put, m, to)
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
			return change(mark{begin: at, epoch: e, state: Writing})
		case kindCommit:
			if known && m.state <= Complete {
				to := m
				to.commit, to.state = at, Complete
				to.unsure = r.ending.Checksum == model.Checksum{Value: Unacknowledged}
				return change(to)
			}
		case kindUnlink:
			if known && m.state <= Complete {
				to := m
				to.state = Held
				return change(to)
			}
		case kindGone:
			if known {
				return change(mark{})
			}
		}
		return fmt.Errorf("%w: a record of kind %d for put %d, which is %s", ErrDamaged, r.kind, r.put, m.state)
	})
	if err != nil {
		x.undo()
	}
	return err
}

// change replaces a mark and remembers it.
func (x *index) change(p Put, was, is mark) {
	if n := len(x.changes); n > 0 && x.changes[n-1].put > p {
		x.sorted = false
	}
	x.set(p, was, is)
	x.live += int(is.bytes) - int(was.bytes)
	x.changes = append(x.changes, change{p, was, is})
}

// undo takes the changes back.
func (x *index) undo() {
	for _, c := range slices.Backward(x.changes) {
		x.set(c.put, c.is, c.was)
		x.live += int(c.was.bytes) - int(c.is.bytes)
	}
	x.changes = x.changes[:0]
}

// settled returns what the last batch changed: each put once, in the order of their numbers.
func (x *index) settled() []change {
	if !x.sorted {
		slices.SortStableFunc(x.changes, func(a, b change) int { return cmp.Compare(a.put, b.put) })
		x.sorted = true
	}
	once := x.changes[:0]
	for _, c := range x.changes {
		if n := len(once); n > 0 && once[n-1].put == c.put {
			once[n-1].is = c.is
			continue
		}
		once = append(once, c)
	}
	x.changes = once
	return once
}

// shift moves all positions by d bytes.
func (x *index) shift(d int64) {
	for p, was := range x.all() {
		is := was
		is.begin = uint32(int64(was.begin) + d)
		if was.commit != 0 {
			is.commit = uint32(int64(was.commit) + d)
		}
		x.set(p, was, is)
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
