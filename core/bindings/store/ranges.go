package store

import (
	"context"

	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// Ranges are ranges of objects and their destinations. Buffer b, which must be registered, receives
// the ranges of the keys KeyRows[b] to KeyRows[b+1]-1. Key k has the ranges FragRows[k] to
// FragRows[k+1]-1. Range f is Sizes[f] bytes of the object from SrcOffsets[f] on, and goes to
// DstOffsets[f] in the buffer.
type Ranges struct {
	Buffers, KeyRows, FragRows    []uint64
	DstOffsets, SrcOffsets, Sizes []uint64
}

// check returns an error if r cannot be the ranges of n keys.
func (r *Ranges) check(n int) error {
	bad := func(what string) error { return errs.New(errs.InvalidParams, "get into ranges", "%s do not fit", what) }
	frags := uint64(len(r.Sizes))
	switch {
	case len(r.KeyRows) != len(r.Buffers)+1 || !rising(r.KeyRows, uint64(n)):
		return bad("the buffers and their keys")
	case len(r.FragRows) != n+1 || !rising(r.FragRows, frags):
		return bad("the keys and their fragments")
	case uint64(len(r.DstOffsets)) != frags || uint64(len(r.SrcOffsets)) != frags:
		return bad("the offsets and sizes of fragments")
	}
	return nil
}

// rising reports whether rows begin at 0, do not fall, and end at end.
func rising(rows []uint64, end uint64) bool {
	for i := 1; i < len(rows); i++ {
		if rows[i] < rows[i-1] {
			return false
		}
	}
	return rows[0] == 0 && rows[len(rows)-1] == end
}

// GetRanges reads ranges and sets each result to the bytes of a range, or to a code. An error of one
// range does not affect the others.
func (s *Store) GetRanges(keys []string, r Ranges, results []Code) {
	defer s.guard(results)
	o := s.current.Load()
	err := r.check(len(keys))
	if o == nil {
		err = errNotSetup
	}
	if err != nil {
		s.noteAll(err, results)
		return
	}
	reads := make([]store.Ranges, len(keys))
	index := make([][]int, len(keys)) // the results of each read
	for b, addr := range r.Buffers {
		space := o.registered.after(addr)
		for k := r.KeyRows[b]; k < r.KeyRows[b+1]; k++ {
			reads[k].Key = keys[k]
			for f := r.FragRows[k]; f < r.FragRows[k+1]; f++ {
				dst, ok := fragment(addr, space, r.DstOffsets[f], r.Sizes[f])
				if !ok {
					results[f] = s.note(errs.New(errs.InvalidParams, "get into ranges",
						"%d bytes at %d are not within the registered memory at %#x, of which there are %d bytes", r.Sizes[f], r.DstOffsets[f], addr, space))
					continue
				}
				reads[k].Fragments = append(reads[k].Fragments, store.Fragment{Offset: r.SrcOffsets[f], Mem: dst})
				index[k] = append(index[k], int(f))
			}
		}
	}
	for k, got := range o.pool.GetIntoRanges(context.Background(), reads) {
		for i := range got {
			results[index[k][i]] = s.count(&got[i])
		}
	}
}

// fragment returns size bytes at an offset of a buffer of space bytes.
func fragment(addr, space, offset, size uint64) ([]byte, bool) {
	if space == 0 || offset > space || size > space-offset {
		return nil, false
	}
	return At(addr+offset, size)
}
