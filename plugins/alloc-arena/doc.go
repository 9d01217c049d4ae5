// Package arena is the allocator alloc/arena: it hands out byte ranges of spaces of up to
// many TiB without ever touching the memory behind them.
//
// A size class is one exact size, rounded up to the granule (64 bytes, 16 for small
// sizes). A class that is in use gets arenas: runs of slots that are set aside for it, grow with the number of its
// live extents, and are handed out front to back. What is freed goes back to the free
// ranges at once and merges with its neighbours, so an arena that empties is whole again
// without any bookkeeping. A request is served, in this order, from
//
//	a free range of exactly its size         reuse, leaves nothing over
//	the arena of its class                   keeps sizes apart
//	a free range of a small multiple         what neighbours of its class left
//	a new arena                              while the space has large free ranges
//	the smallest free range that fits        the space is nearly full
//	the same, after all arenas were given up nothing stays stranded in them
//
// so a request fails only when no free range is large enough. Pages of one size fill a
// space to the last slot.
//
// Each space has its own lock and its own flat, pointer-free arrays: about 30 bytes for a
// live extent, kept at their largest until the space is removed. An operation takes
// logarithmic time in the number of distinct sizes of free ranges.
package arena
