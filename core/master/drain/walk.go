package drain

import (
	"fmt"
	"slices"
	"strings"
)

// walk is one pass over all units on the segments of a job, page by page.
type walk struct {
	pool     Pool
	segments []string
	cursor   uint64
	page     []Unit
	at       int
}

// unit returns the current unit of the walk and its segment. It takes pages from the budget as it
// needs them. It returns nil if the walk is over or the budget is used up.
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

// last marks the end of a segment, where the pool returns 0; no cursor of a pool is that large.
const last = ^uint64(0)

func (w *walk) over() bool { return len(w.segments) == 0 }

// tally is the result of a walk.
type tally struct {
	waiting int    // units that are still to be moved, those in progress included
	bytes   uint64 // and their size
	blocked int    // of them, those that cannot be moved now
	failed  int    // units that could not be moved in several attempts
	started int    // moves begun
	why     []string
}

// maxListed is the most keys that a message names.
const maxListed = 10

func (t *tally) note(u *Unit, segment, why string) {
	if len(t.why) < maxListed {
		t.why = append(t.why, fmt.Sprintf("%s on %s (%s)", brief(u.Key), segment, why))
	}
}

// list names the first few of n units that block a job.
func list(n int, what string, why []string) string {
	s := fmt.Sprintf("%d objects %s: %s", n, what, strings.Join(why, ", "))
	if n > len(why) {
		s += fmt.Sprintf(", and %d more", n-len(why))
	}
	return s
}

// brief quotes a key, shortened to fit a line.
func brief(key string) string {
	const most = 80
	if len(key) > most {
		return fmt.Sprintf("%q...", key[:most])
	}
	return fmt.Sprintf("%q", key)
}

// inProgress names the objects of moves that have not ended.
func inProgress(moves map[objectID]move) []string {
	var out []string
	for id, m := range moves {
		out = append(out, fmt.Sprintf("%s on %s", brief(id.key), m.segment))
	}
	slices.Sort(out)
	return out[:min(len(out), maxListed)]
}
