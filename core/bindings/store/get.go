package store

import (
	"context"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/store"
)

// GetInto reads objects into memory and sets each result to the size in bytes, or to a code. It does
// not write to memory that is too small.
func (s *Store) GetInto(keys []string, to Fragments, results []Code) {
	defer s.guard(results)
	o := s.current.Load()
	err := to.check(len(keys))
	if o == nil {
		err = errNotSetup
	}
	if err != nil {
		s.noteAll(err, results)
		return
	}
	sc := scratches.Get().(*scratch) //nolint:errcheck // it holds nothing else
	defer sc.release()
	bad := false
	sc.gather(&to, len(keys), func(int) { bad = true })
	if bad || len(sc.mem) != len(to.Ptrs) {
		s.noteAll(errFragment, results)
		return
	}
	got := o.pool.GetFragments(context.Background(), keys, sc.mem, to.Rows)
	for i := range got {
		results[i] = s.count(&got[i])
	}
}

// count returns a number, or the code of its error.
func (s *Store) count(r *model.Result[int]) Code {
	if r.Err != nil {
		return s.note(r.Err)
	}
	return Code(r.Value)
}

// Lent is an object that was read: its memory, valid until Release, or the code of its error.
type Lent struct {
	store.Lent
	Status Code
	// ReadOnly reports that the memory belongs to another process, so that a write to it faults.
	ReadOnly bool
}

// GetBuffers reads objects into memory that stays until it is released, even if the store is closed
// before.
func (s *Store) GetBuffers(keys []string) []Lent {
	out := make([]Lent, len(keys))
	status := make([]Code, len(keys))
	s.getBuffers(keys, out, status)
	for i, code := range status {
		out[i].Status = code
	}
	return out
}

// lend returns the object that the program gets.
func (o *opened) lend(l store.Lent) store.Lent {
	if o.node != nil {
		return l
	}
	o.lent.add()
	return &counted{Lent: l, count: &o.lent}
}

func (s *Store) getBuffers(keys []string, out []Lent, status []Code) {
	defer s.guard(status)
	o := s.current.Load()
	if o == nil {
		s.noteAll(errNotSetup, status)
		return
	}
	o.lent.add() // Keep the client open during the call.
	defer o.lent.done()
	for i, r := range o.pool.GetBuffers(context.Background(), keys, false) {
		if status[i] = s.note(r.Err); r.Err == nil {
			out[i].Lent, out[i].ReadOnly = o.lend(r.Value), o.node == nil
		}
	}
}
