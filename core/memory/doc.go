// Package memory hands out the host memory that takes part in transfers: segments of a
// node, staging buffers of a client.
//
// Blocks are memfd mappings where the kernel allows it, so that another process can map
// the same memory without a copy. Pages are touched by whoever uses them first: a block
// of 1 TiB costs address space only until something is stored in it.
//
// Allocate maps one block; a Host cuts the buffers of a process from an arena, and maps
// them one by one where there is none. Huge pages and Bind are requirements, the arena and
// the other placements are wishes: what a requirement lacks is an error with a Shortage,
// what a wish lacks is a warning. Sub-folder hicache plans huge pages for an engine.
//
// This is the one room of the core that converts between slices and addresses; all
// others carry addresses as plain uint64.
package memory
