package transfer

import "sync/atomic"

// Stats counts what an engine did since it was made.
type Stats struct {
	ReadBytes, WrittenBytes uint64
	// LocalCopies are requests that were served by a copy within the process.
	LocalCopies uint64
	// StagedBytes went through a staging buffer because they were not registered.
	StagedBytes uint64
	// Retries are slices submitted again: Reroutes those of them on another rail, Failovers
	// those on another transport.
	Retries, Reroutes, Failovers uint64
	// Quarantined are slices whose memory may still be touched.
	Quarantined uint64
	// Stray are completions of operations that were not under way.
	Stray uint64
	// DroppedNotifications were rejected, since nobody took the earlier ones.
	DroppedNotifications uint64
	// Batches are not freed.
	Batches int
}

type counters struct {
	read, wrote, localCopies, staged, retries, reroutes, failovers, quarantined, stray atomic.Uint64
}

// Stats returns the counts.
func (e *Engine) Stats() Stats {
	s := &e.stats
	e.notes.mu.Lock()
	dropped := e.notes.dropped
	e.notes.mu.Unlock()
	e.batches.mu.Lock()
	open := len(e.batches.open)
	e.batches.mu.Unlock()
	return Stats{
		DroppedNotifications: dropped, Batches: open,
		ReadBytes: s.read.Load(), WrittenBytes: s.wrote.Load(), LocalCopies: s.localCopies.Load(), StagedBytes: s.staged.Load(),
		Retries: s.retries.Load(), Reroutes: s.reroutes.Load(), Failovers: s.failovers.Load(), Quarantined: s.quarantined.Load(), Stray: s.stray.Load(),
	}
}
