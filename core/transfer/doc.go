// Package transfer moves bytes between this process and its peers over whatever
// transports both have.
//
// The Engine owns the table of registered local memory, the peers with their paths, and
// the journey of each request: it is cut into slices, the slices go out in parallel
// within a window of bytes, a failed slice is tried again on the same path, on the next
// transport, and once more after the peer was looked up anew. A peer that keeps failing
// is left alone for a while, so that requests to it fail fast and requests to others are
// not held up.
//
// A request names its peer by the name under which the peer published itself, and the
// peer's memory by address. The process's own name means a copy within memory.
package transfer
