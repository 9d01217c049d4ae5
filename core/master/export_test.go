package master

import (
	"context"

	"github.com/mooncake-go/mooncake/core/master/objects"
	"github.com/mooncake-go/mooncake/core/master/segments"
	"github.com/mooncake-go/mooncake/sdk/evict"
)

// Audit is what the Service itself holds, for tests that compare it with what its plugins
// and its callers know. It is exact while nothing else runs.
type Audit struct {
	// Extents are those of the table on live segments, Held the bytes in quarantine.
	Extents []segments.Extent
	Held    uint64
	// Ranked are the objects that the policy should know.
	Ranked []evict.ID
	// Readable and SoftPinned count objects.
	Readable, SoftPinned int
}

// Audit delivers what the policy has not heard of yet and looks at everything.
func (s *Service) Audit(ctx context.Context) (a Audit, err error) {
	err = s.evictor.Drain(ctx)
	for at, more := objects.Cursor(0), true; more; more = at != 0 {
		a.Extents, at = s.table.Extents(at, a.Extents)
	}
	a.Held = s.pool.HeldBytes()
	for _, e := range s.table.Ranking() {
		a.Ranked = append(a.Ranked, e.ID)
	}
	a.Readable, a.SoftPinned = s.table.Readable(), s.table.SoftPinned()
	return a, err
}
