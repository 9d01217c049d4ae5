package transfer

import "sync/atomic"

// Stats counts what an engine did since it was made.
type Stats struct {
	ReadBytes, WrittenBytes uint64
	// LocalCopies are requests that were served by a copy within the process.
	LocalCopies uint64
	// StagedBytes went through a staging buffer because they were not registered.
	StagedBytes uint64
	// Retries are slices submitted again, Failovers those of them on another transport.
	Retries, Failovers uint64
	// Quarantined are slices whose memory may still be touched.
	Quarantined uint64
	// Stray are completions of operations that were not under way.
	Stray uint64
}

type counters struct {
	read, wrote, localCopies, staged, retries, failovers, quarantined, stray atomic.Uint64
}

// Stats returns the counts.
func (e *Engine) Stats() Stats {
	s := &e.stats
	return Stats{
		ReadBytes: s.read.Load(), WrittenBytes: s.wrote.Load(), LocalCopies: s.localCopies.Load(), StagedBytes: s.staged.Load(),
		Retries: s.retries.Load(), Failovers: s.failovers.Load(), Quarantined: s.quarantined.Load(), Stray: s.stray.Load(),
	}
}
