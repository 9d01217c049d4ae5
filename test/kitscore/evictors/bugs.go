package evictors

import (
	"os"
	"slices"
	"time"

	"github.com/mooncake-go/mooncake/sdk/evict"
	"github.com/mooncake-go/mooncake/test/kitscore"
)

// bug is a bug and how it bends a policy.
type bug struct {
	kitscore.Bug
	bend func(*bent)
}

func seeded(name, wrong string, bend func(*bent), finds ...string) bug {
	return bug{kitscore.Bug{Name: name, Wrong: wrong, Finds: finds}, bend}
}

// bugs lists the bugs.
func bugs() []bug {
	return slices.Concat(recordBugs(), proposeBugs(), lifeBugs())
}

// recordBugs lose or misread events.
func recordBugs() []bug {
	return []bug{
		seeded("last-of-256", "The last event of a batch of 256 is lost.", func(b *bent) {
			b.record = func(events []evict.Event) []evict.Event {
				if len(events) == 256 {
					return events[:255]
				}
				return events
			}
		}, "batches"),
		seeded("removes-of-large-batches", "Removes in batches of more than 128 events are lost.", func(b *bent) {
			b.record = func(events []evict.Event) []evict.Event {
				if len(events) <= 128 {
					return events
				}
				return slices.DeleteFunc(events, func(e evict.Event) bool { return e.Op == evict.Remove })
			}
		}, "batches"),
		seeded("replay-second-batch", "After a start, only the first of several large batches is applied, as at a replay.", func(b *bent) {
			large := 0
			b.record = func(events []evict.Event) []evict.Event {
				if len(events) < 1000 {
					return events
				}
				if large++; large > 1 {
					return nil
				}
				return events
			}
		}, "replay", "a killed process"),
		seeded("removes-first", "The removes of a batch are applied before its inserts.", func(b *bent) {
			b.record = func(events []evict.Event) []evict.Event {
				slices.SortStableFunc(events, func(x, y evict.Event) int { return last(x) - last(y) })
				return events
			}
		}, "record: events of one call are in order"),
		seeded("ids-32-bit", "Of an ID, 32 bits count.", func(b *bent) {
			b.renamed(func(id evict.ID) evict.ID { return id & (1<<32 - 1) })
		}, "numbers"),
		seeded("one-fingerprint", "Objects with one fingerprint are one object.", func(b *bent) {
			first := map[uint64]evict.ID{}
			b.record = func(events []evict.Event) []evict.Event {
				for i, e := range events {
					if id, known := first[e.Fingerprint]; known && e.Op == evict.Insert {
						events[i].ID = id
					} else if e.Fingerprint != 0 {
						first[e.Fingerprint] = e.ID
					}
				}
				return events
			}
		}, "record: objects with one fingerprint are two"),
		seeded("children-go-too", "With its parent, an object is removed as well.", func(b *bent) {
			children := map[evict.ID][]evict.ID{}
			b.record = func(events []evict.Event) []evict.Event {
				for _, e := range events {
					if e.Op == evict.Insert && e.Parent != 0 {
						children[e.Parent] = append(children[e.Parent], e.ID)
					}
					for _, child := range children[e.ID] {
						if e.Op == evict.Remove {
							events = append(events, evict.Event{Op: evict.Remove, ID: child})
						}
					}
				}
				return events
			}
		}, "record: remove of a parent leaves its children"),
		seeded("access-ends-proposal", "An access to a proposed object ranks it again.", func(b *bent) {
			sizes := map[evict.ID]uint64{}
			b.record = func(events []evict.Event) []evict.Event {
				var out []evict.Event
				for _, e := range events {
					if e.Op == evict.Insert {
						sizes[e.ID] = e.Size
					}
					if size, known := sizes[e.ID]; known && e.Op == evict.Access {
						out = append(out, evict.Event{Op: evict.Remove, ID: e.ID}, evict.Event{Op: evict.Insert, ID: e.ID, Size: size})
					}
					if out = append(out, e); e.Op == evict.Remove {
						delete(sizes, e.ID)
					}
				}
				return out
			}
		}, "record: access to a proposed object leaves it proposed"),
		seeded("65536-objects", "More than 65536 objects are not known.", func(b *bent) {
			known := map[evict.ID]bool{}
			b.record = func(events []evict.Event) []evict.Event {
				return slices.DeleteFunc(events, func(e evict.Event) bool {
					switch {
					case e.Op == evict.Remove:
						delete(known, e.ID)
					case e.Op == evict.Insert && !known[e.ID] && len(known) >= 1<<16:
						return true
					case e.Op == evict.Insert:
						known[e.ID] = true
					}
					return false
				})
			}
		}, "batches"),
	}
}

func last(e evict.Event) int {
	if e.Op == evict.Remove {
		return 0
	}
	return 1
}

// proposeBugs propose what they should not.
func proposeBugs() []bug {
	return []bug{
		seeded("sizes-off-by-one", "The size of a candidate is one byte too small.", func(b *bent) {
			b.candidates(func(c *evict.Candidate) { c.Size-- })
		}, "record: insert makes known", "model"),
		seeded("victim-twice", "The first victim of a proposal is in the next one again, although it has no verdict.", func(b *bent) {
			var last []evict.Candidate
			b.propose = func(ask proposer, dst []evict.Candidate, bytes uint64) ([]evict.Candidate, error) {
				had := len(dst)
				dst, err := ask(dst, bytes)
				b.mu.Lock()
				defer b.mu.Unlock()
				if len(last) > 0 && len(dst) == had && bytes > 0 && cap(dst) > had {
					dst = append(dst, last[0])
				}
				last = slices.Clone(dst[had:])
				return dst, err
			}
		}, "propose", "model"),
		seeded("removed-victim", "An object that is removed between two proposals is proposed again.", func(b *bent) {
			sizes, gone := map[evict.ID]uint64{}, []evict.Candidate(nil)
			b.record = func(events []evict.Event) []evict.Event {
				for _, e := range events {
					if size, known := sizes[e.ID]; known && e.Op == evict.Remove {
						gone = append(gone, evict.Candidate{ID: e.ID, Size: size})
					}
					sizes[e.ID] = e.Size
				}
				return events
			}
			b.propose = func(ask proposer, dst []evict.Candidate, bytes uint64) ([]evict.Candidate, error) {
				b.mu.Lock()
				if len(gone) > 0 && bytes > 0 && len(dst) < cap(dst) {
					dst, gone = append(dst, gone[0]), nil
				}
				b.mu.Unlock()
				return ask(dst, bytes)
			}
		}, "record: remove forgets a ranked object", "model"),
		seeded("spared-forgotten", "An object that is retained, because of a pin or a lease, is never ranked again.", func(b *bent) {
			b.resolve = func(verdicts []evict.Verdict) []evict.Verdict {
				return slices.DeleteFunc(verdicts, func(v evict.Verdict) bool { return !v.Evicted })
			}
		}, "resolve: retained objects are ranked"),
		seeded("spared-is-evicted", "A verdict that retains an object counts as its eviction: pins are ignored.", func(b *bent) {
			b.resolve = func(verdicts []evict.Verdict) []evict.Verdict {
				for i := range verdicts {
					verdicts[i].Evicted = true
				}
				return verdicts
			}
		}, "resolve: retained objects are ranked"),
		seeded("one-byte-short", "A proposal ends one byte before what was asked for.", func(b *bent) {
			b.propose = func(ask proposer, dst []evict.Candidate, bytes uint64) ([]evict.Candidate, error) {
				return ask(dst, max(bytes, 1)-1)
			}
		}, "propose"),
		seeded("64-victims", "A proposal has at most 64 victims.", func(b *bent) {
			b.propose = func(ask proposer, dst []evict.Candidate, bytes uint64) ([]evict.Candidate, error) {
				out, err := ask(dst[:len(dst):min(cap(dst), len(dst)+64)], bytes)
				return append(dst, out[len(dst):]...), err
			}
		}, "batches"),
		seeded("two-callers", "Two callers at once may get the same victim.", twoCallers, "concurrent"),
		seeded("counts-lag", "Stats counts as many proposed objects as there were at most.", func(b *bent) {
			var most uint64
			b.stats = func(st *evict.Stats) {
				b.mu.Lock()
				defer b.mu.Unlock()
				most = max(most, st.Proposed)
				st.Proposed = most
			}
		}, "record: remove forgets a proposed object", "resolve: evicted objects are unknown", "model"),
	}
}

// twoCallers gives the last victims out again while another call is in progress.
func twoCallers(b *bent) {
	inside, last := 0, []evict.Candidate(nil)
	b.propose = func(ask proposer, dst []evict.Candidate, bytes uint64) ([]evict.Candidate, error) {
		b.mu.Lock()
		inside++
		if inside > 1 && len(last) > 0 && len(dst) < cap(dst) {
			dst = append(dst, last[0])
			bytes -= min(bytes, last[0].Size)
		}
		b.mu.Unlock()
		time.Sleep(time.Millisecond) // So that another call comes in between.
		dst, err := ask(dst, bytes)
		b.mu.Lock()
		defer b.mu.Unlock()
		inside--
		last = slices.Clone(dst)
		return dst, err
	}
}

// lifeBugs hang and leak.
func lifeBugs() []bug {
	return []bug{
		seeded("waits-for-objects", "Propose waits until an object is ranked.", func(b *bent) {
			b.propose = func(ask proposer, dst []evict.Candidate, bytes uint64) ([]evict.Candidate, error) {
				had := len(dst)
				out, err := ask(dst, bytes)
				if err == nil && len(out) == had && bytes > 0 && cap(dst) > had {
					select {} // Nothing wakes it up.
				}
				return out, err
			}
		}, "record: a new policy is empty"),
		seeded("goroutine-per-record", "Each Record leaves a goroutine behind.", func(b *bent) {
			b.record = func(events []evict.Event) []evict.Event {
				go func() { select {} }()
				return events
			}
		}, "leaks of calls"),
		seeded("descriptor-per-proposal", "Each Propose leaves a descriptor open.", func(b *bent) {
			var open []*os.File // Else the garbage collector closes them.
			b.propose = func(ask proposer, dst []evict.Candidate, bytes uint64) ([]evict.Candidate, error) {
				if f, err := os.Open(os.DevNull); err == nil {
					b.mu.Lock()
					open = append(open, f)
					b.mu.Unlock()
				}
				return ask(dst, bytes)
			}
		}, "leaks of calls"),
	}
}
