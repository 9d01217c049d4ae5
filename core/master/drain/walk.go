package drain

import (
	"fmt"
	"slices"
	"strings"
)

// walk is one pass over everything that lies on the segments of a job, page by page.
type walk struct {
	pool     Pool
	segments []string
	cursor   uint64
	page     []Unit
	at       int
}

// unit returns the unit that the walk stands at and its segment. It takes pages from the
// budget as it needs them; nil is that the walk is over or the budget is used up.
func (w *walk) unit(budget *int) (*Unit, string) {
	for len(w.segments) > 0 {
		if w.at < len(w.page) {
			return &w.page[w.at], w.segments[0]
		}
		if w.cursor == last {
			w.segments, w.cursor = w.segments[1:], 0
			continue
		}
		if *budget == 0 {
			return nil, ""
		}
		*budget--
		clear(w.page)
		w.at = 0
		if w.page, w.cursor = w.pool.Units(w.segments[0], w.cursor, w.page[:0]); w.cursor == 0 {
			w.cursor = last
		}
	}
	w.page, w.at = nil, 0
	return nil, ""
}

// last stands for the end of a segment, where the pool says 0; no pool counts that far.
const last = ^uint64(0)

func (w *walk) over() bool { return len(w.segments) == 0 }

// tally is what a walk found.
type tally struct {
	waiting int    // units that are still to be moved, those in progress included
	bytes   uint64 // and their size
	blocked int    // of them, those that cannot be moved now
	failed  int    // units that could not be moved in several attempts
	started int    // moves begun
	why     []string
}

// maxListed is how many keys a message names.
const maxListed = 10

func (t *tally) note(u *Unit, segment, why string) {
	if len(t.why) < maxListed {
		t.why = append(t.why, fmt.Sprintf("%s on %s (%s)", brief(u.Key), segment, why))
	}
}

// list names units that stand in the way, the first few of n.
func list(n int, what string, why []string) string {
	s := fmt.Sprintf("%d objects %s: %s", n, what, strings.Join(why, ", "))
	if n > len(why) {
		s += fmt.Sprintf(", and %d more", n-len(why))
	}
	return s
}

// brief quotes a key, cut to what a line can hold.
func brief(key string) string {
	const most = 80
	if len(key) > most {
		return fmt.Sprintf("%q...", key[:most])
	}
	return fmt.Sprintf("%q", key)
}

// underWay names the objects of moves that have not ended.
func underWay(moves map[objectID]move) []string {
	var out []string
	for id, m := range moves {
		out = append(out, fmt.Sprintf("%s on %s", brief(id.key), m.segment))
	}
	slices.Sort(out)
	return out[:min(len(out), maxListed)]
}
