// Package arena is the allocator alloc/arena: it hands out byte ranges of spaces of up to
// many TiB without ever touching the memory behind them.
//
// A size class is one exact size, rounded up to the granule (64 bytes, 16 for small
// sizes). A class that is in use gets arenas: stretches that are set aside for it, grow with the number of its
// live extents, and are handed out front to back. A class that many extents are of takes from its
// arena whole runs: up to 64 slots that are one node and a bit each, and of which a free one
// waits for the next extent of the class. Else what is freed goes back to the free ranges at
// once and merges with its neighbours, as a run does when it is empty. A request is served,
// in this order, from
//
//	a free slot of a run of its class
//	a free range of exactly its size         reuse, leaves nothing over
//	the arena of its class                   keeps sizes apart
//	a free range of a small multiple         what neighbours of its class left
//	a new arena                              while the space has large free ranges
//	the smallest free range that fits        the space is nearly full: a few runs give up their free slots
//	the same, after all arenas were given up nothing stays stranded in them
//	the free slots of a run or two           with the free range beside them
//
// so a request fails only when no room is large enough. Pages of one size fill a space to the
// last slot.
//
// Each space has its own lock and its own flat arrays, kept at their largest until the space is
// removed: about 30 bytes for a live extent, 3 for one in a run. An operation in a run takes
// constant time, others logarithmic time in the number of distinct sizes of free ranges. One
// that no free range is large enough for looks at the runs in which, or beside which, something
// was freed since they were last looked at.
package arena
