package ledger

import "fmt"

// rewriteBatch is the size of the batches of a rewritten log.
const rewriteBatch = 256 << 10

// room makes sure that n more bytes fit behind the log. Where half of the log counts no longer it rewrites
// what does, and gives memory back; otherwise the memory grows to twice its size.
func (l *Log) room(n uint64) error {
	if l.area.end()+n <= uint64(len(l.mem.Bytes())) {
		return nil
	}
	if uint64(l.index.live) > l.area.length/2 {
		return l.grow(l.area.end() + max(n, l.area.length))
	}
	if err := l.rewrite(); err != nil {
		return err
	}
	return l.mem.Resize(int(headerSize + max(l.area.length+n, 2*l.area.length, leastArea)))
}

// grow makes the memory hold what ends at end.
func (l *Log) grow(end uint64) error {
	if end > maxLog {
		return fmt.Errorf("%w: it would have %d bytes, the most is %d", ErrFull, end, uint64(maxLog))
	}
	if end <= uint64(len(l.mem.Bytes())) {
		return nil
	}
	return l.mem.Resize(int(end))
}

// rewritten is how much longer the records of a put may be in a rewritten log: they name their epoch, and
// the puts before them are others.
const rewritten = 10 + 3*10

// rewrite copies what still counts behind the log, switches over to it with one word, and does the same once
// more to move it to the front. A process that dies meanwhile leaves a log that is the same.
func (l *Log) rewrite() error {
	to := area{start: (l.area.end() + 7) &^ 7, before: l.seq}
	bytes := uint64(l.index.live + l.index.count()*rewritten)
	if err := l.grow(to.start + bytes + (bytes/rewriteBatch+1)*frameSize); err != nil {
		return err
	}
	fresh := newIndex()
	b := l.mem.Bytes()
	err := l.snapshot(rewriteBatch, func(batch []byte) error {
		f, err := parse(batch)
		if err != nil {
			return err
		}
		if to.end()+uint64(len(batch)) > uint64(len(b)) {
			return fmt.Errorf("%w: rewriting takes more than the %d bytes that it was expected to", ErrFull, bytes)
		}
		if err := fresh.apply(&f, to.end(), l.id.Size); err != nil {
			return err
		}
		copy(b[to.end():], batch)
		l.stepped()
		to.length += uint64(len(batch))
		return nil
	})
	if err != nil {
		return err
	}
	l.switchTo(b, to)
	l.index, l.starts = fresh, nil
	if headerSize+to.length > to.start {
		return nil // It would overwrite itself. There is little before it.
	}
	copy(b[headerSize:], b[to.start:to.end()])
	l.stepped()
	l.index.shift(headerSize - int64(to.start))
	to.start = headerSize
	l.switchTo(b, to)
	return nil
}

// switchTo makes another area count.
func (l *Log) switchTo(b []byte, to area) {
	which := 1 - l.which
	to.put(b, which)
	l.stepped()
	active := word(b, wordActive)
	active.Store((active.Load()>>1+1)<<1 | which)
	l.which, l.area = which, to
	l.stepped()
}
