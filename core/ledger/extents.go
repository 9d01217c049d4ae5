package ledger

import (
	"cmp"
	"slices"
)

// leafSize is the most extents of one leaf of an extentIndex.
const leafSize = 256

// unfinished is a put that may write, or has writes in progress.
type unfinished struct {
	id      Put
	extents []Extent
	one     [1]Extent // of extents, as a rule
	writes  int
	open    bool // it may write
	gone    bool // its memory is not its own any more
	// size is that of extents, and written what writes that have ended had of it, in bytes.
	size, written uint64
	late          bool // it has ended, and not all of its bytes have arrived
}

// owned is an extent with the put that has it.
type owned struct {
	Extent
	put *unfinished
}

// compare orders extents by their offsets. Extents of a ledger do not overlap; if some do, the number of the put
// decides.
func (o *owned) compare(offset uint64, p Put) int {
	return cmp.Or(cmp.Compare(o.Offset, offset), cmp.Compare(o.put.id, p))
}

// extentIndex finds the extent in which an offset lies: a list of leaves, none of which is empty. A search takes
// O(log n); adding and removing move one leaf and the list of leaves. The zero value is empty.
type extentIndex struct {
	leaves [][]owned
}

// leaf returns the index of the leaf in which an extent at an offset lies or belongs.
func (x *extentIndex) leaf(offset uint64, p Put) int {
	low, high := 0, len(x.leaves)
	for low < high { // The first leaf that begins behind it.
		if mid := (low + high) / 2; x.leaves[mid][0].compare(offset, p) <= 0 {
			low = mid + 1
		} else {
			high = mid
		}
	}
	return max(low-1, 0)
}

// within returns the index of the first extent of a leaf that is not before an offset and put.
func within(leaf []owned, offset uint64, p Put) int {
	low, high := 0, len(leaf)
	for low < high {
		if mid := (low + high) / 2; leaf[mid].compare(offset, p) < 0 {
			low = mid + 1
		} else {
			high = mid
		}
	}
	return low
}

func (x *extentIndex) add(o owned) {
	if len(x.leaves) == 0 {
		x.leaves = append(x.leaves, []owned{o})
		return
	}
	i := x.leaf(o.Offset, o.put.id)
	leaf := x.leaves[i]
	leaf = slices.Insert(leaf, within(leaf, o.Offset, o.put.id), o)
	x.leaves[i] = leaf
	if len(leaf) > leafSize {
		half := len(leaf) / 2
		x.leaves = slices.Insert(x.leaves, i+1, slices.Clone(leaf[half:]))
		clear(leaf[half:])
		x.leaves[i] = leaf[:half]
	}
}

func (x *extentIndex) remove(e Extent, p Put) {
	if len(x.leaves) == 0 {
		return
	}
	i := x.leaf(e.Offset, p)
	leaf := x.leaves[i]
	at := within(leaf, e.Offset, p)
	if at == len(leaf) || leaf[at].compare(e.Offset, p) != 0 {
		return
	}
	if leaf = slices.Delete(leaf, at, at+1); len(leaf) > 0 {
		x.leaves[i] = leaf
	} else {
		x.leaves = slices.Delete(x.leaves, i, i+1)
	}
}

// holds returns the put of the extent that contains [offset, offset+size), nil for none.
func (x *extentIndex) holds(offset, size uint64) *unfinished {
	if len(x.leaves) == 0 {
		return nil
	}
	leaf := x.leaves[x.leaf(offset, ^Put(0))]
	at := within(leaf, offset, ^Put(0))
	if at == 0 {
		return nil
	}
	if o := &leaf[at-1]; offset-o.Offset <= o.Length && size <= o.Length-(offset-o.Offset) {
		return o.put
	}
	return nil
}
