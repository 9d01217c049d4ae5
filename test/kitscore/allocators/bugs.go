package allocators

import (
	"os"
	"slices"

	"github.com/mooncake-go/mooncake/sdk/alloc"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/test/kitscore"
)

// bug is a bug and how it bends an allocator.
type bug struct {
	kitscore.Bug
	bend func(*bent)
}

func seeded(name, wrong string, bend func(*bent), finds ...string) bug {
	return bug{kitscore.Bug{Name: name, Wrong: wrong, Finds: finds}, bend}
}

// bugs lists the bugs.
func bugs() []bug {
	return slices.Concat(placeBugs(), freeBugs(), otherBugs())
}

func none(extents []alloc.Extent) []bool { return make([]bool, len(extents)) }

// placeBugs give out the wrong extents.
func placeBugs() []bug {
	return []bug{
		seeded("overlap", "Each hundredth extent overlaps the one before it by a page.", func(b *bent) {
			n := 0
			var before alloc.Extent
			b.shown(func(_ alloc.Request, e alloc.Extent) (alloc.Extent, bool) {
				out := e
				if n++; n%100 == 0 && before.Size >= 4096 && before.Space == e.Space && e.Size <= before.Size {
					out.Offset = before.Offset + before.Size - 4096
				}
				before = e
				return out, out != e
			})
		}, "batches"),
		seeded("past-the-end", "The last extent of a space ends a byte behind the space.", func(b *bent) {
			b.shown(func(_ alloc.Request, e alloc.Extent) (alloc.Extent, bool) {
				out := e
				if (e.Offset+e.Size)%(1<<20) == 0 {
					out.Offset++
				}
				return out, out != e
			})
		}, "alloc", "align", "model"),
		seeded("alignment-of-large-sizes", "From 64 MiB on, an alignment is ignored.", func(b *bent) {
			b.shown(func(r alloc.Request, e alloc.Extent) (alloc.Extent, bool) {
				out := e
				if e.Size >= 64<<20 && r.Align > 1 {
					out.Offset += r.Align / 2
				}
				return out, out != e
			})
		}, "align"),
		seeded("offsets-32-bit", "Of an offset, 32 bits are given out.", func(b *bent) {
			b.shown(func(_ alloc.Request, e alloc.Extent) (alloc.Extent, bool) {
				out := e
				out.Offset &= 1<<32 - 1
				return out, out != e
			})
		}, "large spaces", "hostile"),
		seeded("size-off-by-one", "The size of an extent of an odd size is rounded up.", func(b *bent) {
			b.shown(func(_ alloc.Request, e alloc.Extent) (alloc.Extent, bool) {
				out := e
				out.Size += e.Size & 1
				return out, out != e
			})
		}, "align", "restart"),
		seeded("last-candidate", "The last candidate is tried first.", func(b *bent) {
			b.requests = func(requests []alloc.Request) {
				for i := range requests {
					requests[i].Candidates = slices.Clone(requests[i].Candidates)
					slices.Reverse(requests[i].Candidates)
				}
			}
		}, "alloc"),
		seeded("one-candidate", "Only the first candidate is tried.", func(b *bent) {
			b.requests = func(requests []alloc.Request) {
				for i, r := range requests {
					requests[i].Candidates = r.Candidates[:min(1, len(r.Candidates))]
				}
			}
		}, "alloc", "model"),
	}
}

// freeBugs free the wrong extents, or not all of them.
func freeBugs() []bug {
	return []bug{
		seeded("neighbour-freed", "In place of the second extent of a batch, the first is freed twice.", func(b *bent) {
			b.free = func(extents []alloc.Extent) []bool {
				drop := none(extents)
				if len(extents) > 2 {
					drop[1] = true
				}
				return drop
			}
		}, "batches", "free"),
		seeded("free-last-of-256", "The last extent of a batch of 256 is not freed.", func(b *bent) {
			b.free = func(extents []alloc.Extent) []bool {
				return dropped(extents, func(i int, _ alloc.Extent) bool { return i == 255 && len(extents) == 256 })
			}
		}, "batches"),
		seeded("double-free", "A double free is no error.", func(b *bent) {
			live := map[alloc.Extent]bool{}
			b.results = func(_ []alloc.Request, results []alloc.Result) {
				for _, r := range results {
					live[r.Extent] = true
				}
			}
			b.free = func(extents []alloc.Extent) []bool {
				return dropped(extents, func(_ int, e alloc.Extent) bool {
					was, known := live[e]
					live[e] = false
					return known && !was
				})
			}
		}, "free", "batches"),
		seeded("not-merged", "Ranges that were freed are not merged: what they have in one piece is half of it.", func(b *bent) {
			freed := map[alloc.SpaceID]bool{}
			b.free = func(extents []alloc.Extent) []bool {
				for _, e := range extents {
					freed[e.Space] = freed[e.Space] || e.Size >= 16<<10
				}
				return none(extents)
			}
			b.stats = func(id alloc.SpaceID, st *alloc.Stats) {
				if freed[id] {
					st.LargestFree /= 2
				}
			}
		}, "free space is merged"),
		seeded("space-lost", "Of each 64 freed extents the bytes of one cannot be used again.", func(b *bent) {
			n := 0
			lost := map[alloc.SpaceID][2]uint64{} // Extents and bytes.
			b.free = func(extents []alloc.Extent) []bool {
				return dropped(extents, func(_ int, e alloc.Extent) bool {
					if n++; n%64 != 0 {
						return false
					}
					l := lost[e.Space]
					lost[e.Space] = [2]uint64{l[0] + 1, l[1] + e.Size}
					return true
				})
			}
			b.stats = func(id alloc.SpaceID, st *alloc.Stats) { // The counts do not show it.
				l := lost[id]
				st.Extents, st.Requested = st.Extents-l[0], st.Requested-l[1]
				if st.Reserved -= min(st.Reserved, l[1]); st.Extents == 0 {
					st.Reserved = 0
				}
			}
		}, "free space is merged", "batches"),
	}
}

// otherBugs are about restarts, counts, and what is left behind.
func otherBugs() []bug {
	return []bug{
		seeded("reserve-last-of-256", "The last extent of a batch of 256 is not reserved, and no error says so.", func(b *bent) {
			b.reserve = func(extents []alloc.Extent) []bool {
				return dropped(extents, func(i int, _ alloc.Extent) bool { return i == 255 && len(extents) == 256 })
			}
		}, "reserve in batches", "a killed process"),
		seeded("reserve-once", "Only the first batch of a replay is reserved.", func(b *bent) {
			first := map[alloc.SpaceID]int{}
			b.reserve = func(extents []alloc.Extent) []bool {
				drop := dropped(extents, func(_ int, e alloc.Extent) bool { return first[e.Space] >= 2 })
				for _, e := range extents[:min(1, len(extents))] {
					first[e.Space]++
				}
				return drop
			}
		}, "reserve in batches", "restart", "a killed process"),
		seeded("counts-of-reserve", "An extent that was reserved does not count as requested.", func(b *bent) {
			reserved := map[alloc.SpaceID]uint64{}
			b.reserve = func(extents []alloc.Extent) []bool {
				for _, e := range extents {
					reserved[e.Space] += e.Size
				}
				return none(extents)
			}
			b.remove = func(id alloc.SpaceID) { delete(reserved, id) }
			b.stats = func(id alloc.SpaceID, st *alloc.Stats) { st.Requested -= min(st.Requested, reserved[id]) }
		}, "reserve", "restart"),
		seeded("one-refusal-for-all", "A request that is refused has all after it in its batch refused.", func(b *bent) {
			b.results = func(_ []alloc.Request, results []alloc.Result) {
				refused := false
				for i, r := range results {
					if refused = refused || r.Err != nil; refused && r.Err == nil {
						results[i] = alloc.Result{Err: errs.New(errs.NoAvailableHandle, "", "an earlier request was refused")}
					}
				}
			}
		}, "alloc"),
		seeded("goroutine-per-alloc", "Each Alloc leaves a goroutine behind.", func(b *bent) {
			b.requests = func([]alloc.Request) { go func() { select {} }() }
		}, "leaks of calls"),
		seeded("descriptor-per-free", "Each Free leaves a descriptor open.", func(b *bent) {
			var open []*os.File // Else the garbage collector closes them.
			b.free = func(extents []alloc.Extent) []bool {
				if f, err := os.Open(os.DevNull); err == nil {
					open = append(open, f)
				}
				return none(extents)
			}
		}, "leaks of calls"),
	}
}
