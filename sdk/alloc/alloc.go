package alloc

import (
	"context"

	"github.com/mooncake-go/mooncake/sdk/internal/seal"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

// API lists the versions of this contract that this module supports.
func API() []uint { return []uint{1} }

// SpaceID names a space. The master never reuses one.
type SpaceID uint64

// Space is a range of offsets [0, Size) to allocate from.
type Space struct {
	ID   SpaceID
	Size uint64
}

// Extent is an allocated range [Offset, Offset+Size) of a space.
type Extent struct {
	Space  SpaceID
	Offset uint64
	// Size is the size that was asked for. What the allocator really sets aside may be
	// more, see Stats.
	Size uint64
}

// Request asks for one extent.
type Request struct {
	// Size is at least 1.
	Size uint64
	// Align is a power of two, or 0 for no wish. The offset is a multiple of it. An
	// allocator must honour at least 4096; it may refuse more with InvalidParams.
	Align uint64
	// Candidates are the spaces to try, in order; the first that fits is taken.
	Candidates []SpaceID
}

// Result answers one Request: an extent, or an error.
type Result struct {
	Extent Extent
	Err    error
}

// Stats describes one space, in bytes and counts.
type Stats struct {
	Size      uint64 // of the space
	Requested uint64 // the total size of live extents, as requested
	Reserved  uint64 // the total size that they occupy, rounding included
	Extents   uint64 // live extents
	// LargestFree is the largest size that an allocation without alignment would get now, or a
	// lower bound if the allocator does not know it exactly.
	LargestFree uint64
}

// Allocator hands out extents of spaces.
type Allocator interface {
	plugin.Component
	// AddSpace makes a space known. InvalidParams for size 0 or an ID already in use.
	AddSpace(ctx context.Context, s Space) error
	// RemoveSpace forgets a space with all its extents; they must not be freed any more.
	// SegmentNotFound when it is unknown.
	RemoveSpace(ctx context.Context, id SpaceID) error
	// Alloc answers every request, in order, with results[i] for requests[i]. Live extents
	// of a space never overlap and lie inside it. The error is for the call as a whole (a
	// dead subprocess); then nothing may be assumed to be allocated.
	Alloc(ctx context.Context, requests []Request) (results []Result, err error)
	// Free frees extents, exactly as Alloc returned them. errs is nil if all were freed, otherwise
	// it has an entry for each extent.
	Free(ctx context.Context, extents []Extent) (errs []error, err error)
	// Reserve takes exactly these extents, which an earlier instance of the same allocator
	// with the same configuration gave out, so that a restarted allocator knows what is in
	// use. Per space it is called after AddSpace and before the first Alloc, once or more
	// often. errs is as for Free: InvalidWrite for an extent that overlaps a live one or leaves
	// its space, NoAvailableHandle for one that this allocator could never have given.
	Reserve(ctx context.Context, extents []Extent) (errs []error, err error)
	// Stats describes a space; SegmentNotFound when it is unknown.
	Stats(ctx context.Context, id SpaceID) (Stats, error)
}

// Factory makes allocators. Obtain one from Define.
type Factory = plugin.FactoryOf[Allocator]

// Define makes a Factory. defaults returns a new configuration with the defaults; create makes
// an allocator from one and acquires nothing but memory. If the manifest is not a valid alloc manifest,
// New and Check of the factory return the error.
func Define[C plugin.Config](m plugin.Manifest, defaults func() C, create func(C) (Allocator, error)) Factory {
	return plugin.Define(seal.Token{}, plugin.KindAlloc, m, defaults, create)
}
