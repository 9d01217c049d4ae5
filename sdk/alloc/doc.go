// Package alloc is the contract of allocators.
//
// An allocator works on numbers, never on memory: it hands out extents of spaces. The
// master makes a space for every segment that a node contributes and decides in which
// spaces an object may go; the allocator decides where inside.
//
// Units: offsets, sizes and alignments are bytes. Concurrency: an allocator must be safe
// for concurrent use; the master calls it from many goroutines. All calls carry batches:
// a call through a subprocess costs about 100 us, a call in process about 10 ns.
//
// Errors are per item and carry a code of package errs: NoAvailableHandle when nothing
// fits, SegmentNotFound for an unknown space, InvalidParams for what could never work,
// and InvalidWrite for a free of what is not allocated (a double free is always an error,
// never silent, and changes nothing).
//
// The package imports the standard library only.
package alloc
