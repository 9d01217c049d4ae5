package master

import (
	"context"

	"github.com/mooncake-go/mooncake/core/master/objects"
	"github.com/mooncake-go/mooncake/core/master/segments"
	"github.com/mooncake-go/mooncake/sdk/alloc"
	"github.com/mooncake-go/mooncake/sdk/evict"
)

// ReplayAlloc tells a restarted allocator every mounted segment and every live extent. The
// plugin's supervisor calls it with the new instance before it lets the master's own calls
// through again; those must fail meanwhile, not wait. An error means that the instance must not
// be used: it would give memory out twice.
func (s *Service) ReplayAlloc(ctx context.Context, a alloc.Allocator) error {
	live := func(yield func([]segments.Extent) error) error {
		var extents []segments.Extent
		for at, more := objects.Cursor(0), true; more; more = at != 0 {
			extents, at = s.table.Extents(at, extents[:0])
			if err := yield(extents); err != nil {
				return err
			}
		}
		return nil
	}
	if err := s.pool.Replay(ctx, a, s.registry.View, live); err != nil {
		return err
	}
	s.log.Info("allocator resynced", "segments", len(s.registry.View().All), "objects", s.table.Len())
	return nil
}

// ReplayEvict tells a restarted eviction policy every object that may be evicted, least recently
// used first. The plugin's supervisor calls it with the new instance before it lets the master's
// own calls through again.
func (s *Service) ReplayEvict(ctx context.Context, p evict.Policy) error {
	if err := s.evictor.Replay(ctx, p); err != nil {
		return err
	}
	s.log.Info("eviction policy resynced", "objects", s.table.Readable())
	return nil
}
