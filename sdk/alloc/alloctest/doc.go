// Package alloctest is the conformance suite of allocators.
//
// The author of an allocator calls Run from a test with the allocator's factory, and
// again with a factory that reaches it through the wire. The suite holds an allocator to
// every sentence of package alloc and to nothing more: where an extent goes, and how much
// is lost to rounding and fragments, is the allocator's own business. Bench measures that.
package alloctest
