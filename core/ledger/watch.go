package ledger

import (
	"fmt"
)

// Watch makes w learn of all later batches, in place of the watcher before; nil ends that.
func (l *Log) Watch(w Watcher) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.watcher = w
}

// Find returns what the ledger has of a put. ok is false for a put that it does not have. The error is ErrDamaged.
func (l *Log) Find(p Put) (e Entry, ok bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	m, ok := l.index.get(p)
	if !ok {
		return Entry{}, false, nil
	}
	c := cursor{}
	v, o, err := l.object(&c, p, m)
	if err != nil {
		return Entry{}, false, err
	}
	e = Entry{Version: v, State: m.state, Object: o.clone()}
	if m.commit != 0 {
		c.b = l.mem.Bytes()[m.commit:l.area.end()]
		e.Ended, e.Ending = true, c.commit()
		if c.bad {
			return Entry{}, false, fmt.Errorf("%w: the end of put %d at byte %d cannot be decoded", ErrDamaged, p, m.commit)
		}
	}
	return e, true, nil
}

// Unfinished returns how many puts have begun and neither ended nor been given up.
func (l *Log) Unfinished() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.index.writing)
}

// Puts returns all puts with their states, in no order.
func (l *Log) Puts() map[Put]State {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make(map[Put]State, l.index.count())
	for p, m := range l.index.all() {
		all[p] = m.state
	}
	return all
}
