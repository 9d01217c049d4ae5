// Package transfer moves bytes between this process and its peers over whatever
// transports both have.
//
// The Engine owns the table of registered local memory, the peers with their paths, and
// the journey of each request, of Transfer, of a Batch or of a Scatter. The requests of
// one call to one peer are a group, which one goroutine runs: it cuts them into slices,
// chooses for each a link (a path over one transport) and on it a rail (a pair of
// devices), and submits within a window of bytes. A reaper for each link hands slices
// back.
//
// A failed slice is tried again by the class of its error: on another rail, on the same
// path, on the next transport, and once more after the peer was looked up anew. A rail
// that keeps failing is paused and returns gradually. A peer that keeps failing is left
// alone for a while, so that requests to it fail fast and requests to others are not held
// up. Memory that may still be written is never handed back silently: see ErrQuarantined.
//
// A request names its peer by the name under which the peer published itself, and the
// peer's memory by address. The process's own name means a copy within memory.
//
// Where to read on: group.go (the loop), attach.go (waiting for links), cut.go, direct.go
// and fill.go (the way out), await.go and retry.go (the way back), rail.go, tiers.go,
// choose.go, health.go and speed.go (rails), batch.go (requests in the background),
// segment.go and upstream.go (what nodes of upstream see, and how they are reached).
package transfer
