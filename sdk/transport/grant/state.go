package grant

import (
	"math"
	"slices"
	"time"
)

// State is an entry of a Book for a book of the same memory in another process of this machine. Its times are those of the clock of
// the book that exported it; the most that a time can be has no end.
type State struct {
	Number          uint32
	Key             *Key
	Lead            bool
	Trusted         time.Duration
	Reads, Writes   time.Duration
	Heard           bool
	HeardAt, Latest time.Duration // what the master's clock showed at most, at an instant; with Heard
}

// Shift returns the state by a clock that shows d more.
func (s State) Shift(d time.Duration) State {
	for _, t := range []*time.Duration{&s.Trusted, &s.Reads, &s.Writes, &s.HeardAt} {
		if *t < math.MaxInt64 {
			*t += d
		}
	}
	return s
}

// Export returns all entries, what the clock of the book shows, and a channel that is closed when an entry comes, goes or gets a bound.
// What masters' clocks show changes without it.
func (b *Book) Export() (all []State, now time.Duration, changed <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now = b.now()
	for _, e := range b.all() {
		s := State{Number: e.Number, Key: e.Key, Lead: e.Lead, Trusted: e.Trusted, Reads: e.Reads, Writes: e.Writes, HeardAt: now}
		s.Latest, s.Heard = e.Clock.Latest(now)
		all = append(all, s)
	}
	return all, now, b.changed
}

// Load replaces all entries by those of another book, whose clock this one has.
func (b *Book) Load(all []State) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var entries []*Entry
	for _, s := range all[:min(len(all), maxKeys)] {
		e := &Entry{Number: s.Number, Key: s.Key, Role: Role{Clock: new(Clock), Lead: s.Lead, Trusted: s.Trusted}, Reads: s.Reads, Writes: s.Writes}
		if s.Heard {
			e.Clock.Hear(s.HeardAt, s.HeardAt, s.Latest)
		}
		if i := slices.IndexFunc(b.all(), func(o *Entry) bool { return o.Number == s.Number && *o.Key == *s.Key }); i >= 0 {
			e.mac = b.all()[i].mac
		} else {
			e.mac = newMAC(s.Key.Bytes())
		}
		entries = append(entries, e)
	}
	b.keep(entries)
}
