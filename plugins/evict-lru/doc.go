// Package lru is the eviction policy evict/lru: the object that was read or written
// longest ago goes first.
//
// The order is exact, not sampled. Every operation on one object takes constant time, and
// serving a stable number of objects allocates nothing (see sdk/evict/ranked).
package lru
