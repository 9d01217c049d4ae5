// Package lru is the eviction policy evict/lru: the object that was read or written
// longest ago goes first.
//
// The order is exact, not sampled. Every operation on one object takes constant time.
// Objects live as 32-byte entries in pages of flat memory, linked by index, so that
// millions of them cost the garbage collector nothing; a table of 8-byte slots finds an
// entry by its ID. Serving a stable number of objects allocates nothing.
package lru
