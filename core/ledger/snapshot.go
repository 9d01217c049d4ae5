package ledger

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
)

// Snapshot calls yield for batches that hold every put of the ledger, by the offset of its first extent, of
// about size bytes each, and returns the number of the last batch that they include. What it passes to
// yield is valid during the call. Snapshot works on a copy, so that other calls do not wait for it.
func (l *Log) Snapshot(size int, yield func(batch []byte) error) (Seq, error) {
	c := l.copied()
	return c.seq, c.snapshot(size, yield)
}

// copied returns a copy to read from.
func (l *Log) copied() *Log {
	l.mu.Lock()
	defer l.mu.Unlock()
	return &Log{
		mem: still(bytes.Clone(l.mem.Bytes()[:l.area.end()])), id: l.id, area: l.area, seq: l.seq,
		index: l.index.clone(),
	}
}

// still is memory that does not change.
type still []byte

func (s still) Bytes() []byte    { return s }
func (s still) Resize(int) error { return ErrFull }

// snapshot is Snapshot of a ledger that no other goroutine uses, or with l.mu held.
func (l *Log) snapshot(size int, yield func(batch []byte) error) error {
	c := cursor{}
	l.order = slices.Grow(l.order[:0], l.index.count())
	for p, m := range l.index.all() {
		_, o, err := l.object(&c, p, m)
		if err != nil {
			return err
		}
		l.order = append(l.order, placed{o.Extents[0].Offset, p})
	}
	slices.SortFunc(l.order, func(x, y placed) int { return cmp.Or(cmp.Compare(x.offset, y.offset), cmp.Compare(x.put, y.put)) })
	out := &l.batch
	out.Reset()
	for i, at := range l.order {
		m, _ := l.index.get(at.put)
		v, o, err := l.object(&c, at.put, m)
		if err != nil {
			return err
		}
		out.begin(v, &o)
		if m.commit != 0 {
			c.b = l.mem.Bytes()[m.commit:l.area.end()]
			e := c.commit()
			if c.bad {
				return fmt.Errorf("%w: the end of put %d at byte %d cannot be decoded", ErrDamaged, at.put, m.commit)
			}
			out.Commit(at.put, e)
		}
		if m.state == Held {
			out.Unlink(at.put)
		}
		if out.Size() >= size || i == len(l.order)-1 {
			if err := yield(out.Bytes(0, 0)); err != nil {
				return err
			}
			out.Reset()
		}
	}
	return nil
}

// object decodes the begin of a put again, with c.
func (l *Log) object(c *cursor, p Put, m mark) (Version, Object, error) {
	c.b = l.mem.Bytes()[m.begin:l.area.end()]
	v, o := c.begin(l.index.epochs[m.epoch], p)
	if c.bad {
		return v, o, fmt.Errorf("%w: the begin of put %d at byte %d cannot be decoded", ErrDamaged, p, m.begin)
	}
	return v, o, nil
}

func (o Object) clone() Object {
	o.Name, o.Group, o.Extents = strings.Clone(o.Name), strings.Clone(o.Group), slices.Clone(o.Extents)
	return o
}

// Entries calls yield for every put of a batch that Snapshot made.
func Entries(batch []byte, yield func(*Entry) error) error {
	f, err := parse(batch)
	if err != nil {
		return err
	}
	if f.size != len(batch) || binary.LittleEndian.Uint64(batch[16:]) != 0 {
		return fmt.Errorf("%w: this is no batch of a snapshot", ErrDamaged)
	}
	var e Entry
	flush := func() error {
		if e.State == 0 {
			return nil
		}
		return yield(&e)
	}
	var scratch []Extent
	err = f.each(&scratch, func(r *record) error {
		if r.kind == kindBegin {
			if err := flush(); err != nil {
				return err
			}
			e = Entry{Version: r.version, State: Writing, Object: r.object.clone()}
			return nil
		}
		switch {
		case e.State == 0 || r.put != e.Put:
		case r.kind == kindCommit && e.State == Writing:
			e.State, e.Ended, e.Ending = Complete, true, r.ending
			return nil
		case r.kind == kindUnlink && e.State <= Complete:
			e.State = Held
			return nil
		}
		return fmt.Errorf("%w: a record of kind %d for put %d in a snapshot", ErrDamaged, r.kind, r.put)
	})
	if err != nil {
		return err
	}
	return flush()
}
