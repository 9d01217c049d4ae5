package master

import (
	"context"
	"slices"

	"github.com/mooncake-go/mooncake/core/master/history"
	"github.com/mooncake-go/mooncake/core/master/objects"
	"github.com/mooncake-go/mooncake/core/master/segments"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// sweepLoop clears the table of copies on segments that are gone.
func (s *Service) sweepLoop(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.sweep:
			s.clearTable(ctx)
		}
	}
}

// clearTable clears the table of copies on segments that are gone by now, unless ctx ends
// first.
func (s *Service) clearTable(ctx context.Context) {
	why, gone := history.Reason(s.lost.Load()), 0
	var bin objects.Bin
	for at, more := objects.Cursor(0), true; more && ctx.Err() == nil; more = at != 0 {
		bin.Reset()
		s.pool.Enter()
		n := 0
		n, at = s.table.Sweep(at, &bin)
		gone += n
		s.bury(ctx, &bin, why, false)
		s.pool.Leave()
		s.feed(ctx)
	}
	s.log.Info("objects of unmounted segments cleared", "objects", gone)
}

// departed are the segments that went, as long as something lies on them; true once the
// table holds nothing of them.
type departed map[*segments.Segment]bool

// settle makes sure that no object lies on the memory of segments to be mounted: a client
// may have had that memory mounted before. What its clients may be using yet is in
// quarantine afterwards, and space.Pool.Mount keeps it there. Called with the mounts
// locked. RPCTimeout when ctx ended first.
func (s *Service) settle(ctx context.Context, op string, client model.ClientID, segs []model.Segment) error {
	again := false
	for m, cleared := range s.departed {
		switch {
		case m.Used() == 0:
			delete(s.departed, m)
		case !cleared && m.Client == client:
			again = again || overlapsAny(m, segs)
		}
	}
	if !again {
		return nil
	}
	s.clearTable(ctx)
	if err := ctx.Err(); err != nil {
		return errs.Wrap(errs.RPCTimeout, op, err)
	}
	for m := range s.departed {
		s.departed[m] = true
	}
	return nil
}

func overlapsAny(m *segments.Segment, segs []model.Segment) bool {
	return slices.ContainsFunc(segs, func(o model.Segment) bool { return m.Base < o.Base+o.Size && o.Base < m.Base+m.Size })
}
