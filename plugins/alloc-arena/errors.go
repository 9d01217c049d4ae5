package arena

import (
	"fmt"

	"github.com/mooncake-go/mooncake/sdk/alloc"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

func errEmptySpace(id alloc.SpaceID) error {
	return errs.New(errs.InvalidParams, "alloc/arena: add space", "space %d has size 0, it needs at least 1 byte", id)
}

func errKnownSpace(id alloc.SpaceID) error {
	return errs.New(errs.InvalidParams, "alloc/arena: add space", "space %d exists already; remove it first or use another number", id)
}

func errUnknownSpace(id alloc.SpaceID) error {
	return errs.New(errs.SegmentNotFound, "alloc/arena", "space %d is unknown; it was removed or never added", id)
}

func errRequest(r *alloc.Request) error {
	const op = "alloc/arena: allocate"
	switch {
	case r.Size == 0:
		return errs.New(errs.InvalidParams, op, "the size is 0, it must be at least 1")
	case len(r.Candidates) == 0:
		return errs.New(errs.InvalidParams, op, "%d bytes without a candidate space; name at least one", r.Size)
	}
	return errs.New(errs.InvalidParams, op, "the alignment is %d, it must be 0 or a power of two", r.Align)
}

// noRoom is the cause of a refusal. It formats when it is printed: a full pool refuses
// often, and the master answers with an eviction rather than a message.
type noRoom struct {
	size, align uint64
	candidates  int
}

func (e *noRoom) Error() string {
	return fmt.Sprintf("no free range of %d bytes (alignment %d) in %d candidate spaces; evict something or add memory",
		e.size, e.align, e.candidates)
}

func errFull(r *alloc.Request) error {
	return &errs.Error{Code: errs.NoAvailableHandle, Op: "alloc/arena: allocate", Err: &noRoom{r.Size, r.Align, len(r.Candidates)}}
}

func errNotLive(e alloc.Extent) error {
	return errs.New(errs.InvalidWrite, "alloc/arena: free",
		"[%d, +%d) of space %d is not an extent in use; it was freed before or never given out", e.Offset, e.Size, e.Space)
}

func errReserve(v verdict, e alloc.Extent, s *space) error {
	const op = "alloc/arena: reserve"
	switch v {
	case reserved:
		return nil
	case overlaps:
		return errs.New(errs.InvalidWrite, op, "[%d, +%d) of space %d overlaps an extent in use", e.Offset, e.Size, e.Space)
	case outside:
		return errs.New(errs.InvalidWrite, op, "[%d, +%d) leaves space %d, which has %d bytes", e.Offset, e.Size, e.Space, s.size)
	}
	return errs.New(errs.NoAvailableHandle, op,
		"[%d, +%d) of space %d was never given out by this allocator with granules of %d bytes; check granule_bytes",
		e.Offset, e.Size, e.Space, s.granules.fine)
}
