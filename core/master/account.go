package master

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/mooncake-go/mooncake/core/master/objects"
	"github.com/mooncake-go/mooncake/core/master/segments"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// Segments lists what is mounted and what is absent, with the allocator's own figures of use. While
// the allocator does not answer, the master's are shown, which leave its rounding out.
func (s *Service) Segments(ctx context.Context) ([]model.SegmentInfo, error) {
	if err := s.admit(ctx, "master: segments", 0); err != nil {
		return nil, err
	}
	v := s.registry.View()
	a := s.accounts()
	out := make([]model.SegmentInfo, 0, len(v.All)+len(v.Away))
	answers := true
	for _, m := range slices.Concat(v.All, v.Away) {
		info := model.SegmentInfo{
			Segment: m.Segment, Client: m.Client, Status: m.Status(), Used: m.Used(), Weight: m.Weight(), Deadline: s.clock.Time(m.Deadline()),
			Writing: a[m].Writing, Held: a[m].Held, AbsentSince: s.clock.Time(m.AbsentSince()), Adopted: m.Adopted, Keeper: m.Keeper(),
		}
		if answers {
			st, err := s.pool.Stats(ctx, m.Space)
			switch {
			case err == nil:
				info.Used = st.Reserved
			case errors.Is(err, errs.SegmentNotFound.Err()): // unmounted meanwhile
			default:
				answers = false
			}
		}
		out = append(out, info)
	}
	return out, nil
}

// account is what the memory of one segment is used for, in bytes as objects ask for them. Held includes Unconfirmed.
type account struct{ Live, Writing, Held, Unconfirmed uint64 }

// accounts returns the accounts of all segments, without Live.
func (s *Service) accounts() map[*segments.Segment]account {
	out := map[*segments.Segment]account{}
	s.table.Writing(func(e segments.Extent) {
		a := out[e.Seg]
		a.Writing += e.Size
		out[e.Seg] = a
	})
	s.pool.Held(func(e segments.Extent) {
		a := out[e.Seg]
		a.Held += e.Size
		out[e.Seg] = a
	})
	v := s.registry.View()
	for _, m := range slices.Concat(v.All, v.Away) {
		a := out[m]
		for _, e := range m.Ledger.Unfreed(nil) {
			a.Held += e.Size
			a.Unconfirmed += e.Size
		}
		out[m] = a
	}
	return out
}

// Balance checks that in each segment live, unfinished, held and free memory make up its capacity,
// and that the allocator has as much in use. It is exact while no call changes anything; it
// walks through all objects.
func (s *Service) Balance(ctx context.Context) error {
	if err := s.lockMounts(ctx, "master: balance"); err != nil {
		return err
	}
	defer s.unlockMounts()
	all := s.accounts()
	for _, x := range s.stripes {
		for _, p := range x.Parts {
			if p.Seg != nil {
				a := all[p.Seg]
				a.Held += p.Size
				all[p.Seg] = a
			}
		}
	}
	var extents []segments.Extent
	for at, more := objects.Cursor(0), true; more; more = at != 0 {
		extents, at = s.table.Extents(at, extents[:0])
		for _, e := range extents {
			a := all[e.Seg]
			a.Live += e.Size
			all[e.Seg] = a
		}
	}
	v := s.registry.View()
	for _, m := range slices.Concat(v.All, v.Away) {
		a := all[m]
		a.Live -= a.Writing // Extents has both.
		st, err := s.pool.Stats(ctx, m.Space)
		switch {
		case err != nil:
			return fmt.Errorf("master: balance of segment %s (%s): %w", m.ID, m.Name, err)
		case a.Live+a.Writing+a.Held != m.Used() || m.Used() > m.Size:
			return fmt.Errorf("master: balance of segment %s (%s): %d bytes live, %d unfinished, %d held, but %d of %d in use", m.ID, m.Name, a.Live, a.Writing, a.Held, m.Used(), m.Size)
		case a.Unconfirmed != m.Unconfirmed():
			return fmt.Errorf("master: balance of segment %s (%s): %d bytes wait for the ledger, but %d are unconfirmed", m.ID, m.Name, a.Unconfirmed, m.Unconfirmed())
		case st.Requested != m.Used():
			return fmt.Errorf("master: balance of segment %s (%s): the allocator has %d bytes in use, the master %d", m.ID, m.Name, st.Requested, m.Used())
		}
	}
	return nil
}
