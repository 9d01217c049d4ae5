package transfer

import (
	"cmp"
	"slices"

	"github.com/mooncake-go/mooncake/core/transfer/rail"
)

// Stats counts what an engine did since it was made.
type Stats struct {
	ReadBytes, WrittenBytes uint64
	// LocalCopies are requests that were served by a copy within the process.
	LocalCopies uint64
	// StagedBytes went through a staging buffer because they were not registered.
	StagedBytes uint64
	// Retries are slices that were retried: Reroutes those of them on another rail, Failovers those
	// on another transport.
	Retries, Reroutes, Failovers uint64
	// Quarantined are slices whose memory may still be touched.
	Quarantined uint64
	// Stray are completions of operations that were not in flight.
	Stray uint64
	// DroppedNotifications were rejected, since the earlier ones were not taken.
	DroppedNotifications uint64
	// Batches is how many are not freed.
	Batches int
}

// Stats returns the counts.
func (e *Engine) Stats() Stats {
	s := &e.dispatcher.Counters
	e.notes.mu.Lock()
	dropped := e.notes.dropped
	e.notes.mu.Unlock()
	e.batches.mu.Lock()
	open := len(e.batches.open)
	e.batches.mu.Unlock()
	return Stats{
		DroppedNotifications: dropped, Batches: open,
		ReadBytes: s.Read.Load(), WrittenBytes: s.Wrote.Load(), LocalCopies: s.LocalCopies.Load(), StagedBytes: s.Staged.Load(),
		Retries: s.Retries.Load(), Reroutes: s.Reroutes.Load(), Failovers: s.Failovers.Load(), Quarantined: s.Quarantined.Load(), Stray: e.env.Stray.Load(),
	}
}

// PathStats is a path to a peer over one transport.
type PathStats struct {
	Peer, Transport string
	// Dead: the path ended; the next request connects anew.
	Dead bool
	// Rails are those of the path; one without names where the transport has none.
	Rails []rail.Stats
}

// DeviceLoad is a device of this machine over all peers.
type DeviceLoad struct {
	// Device is its name; the name of the transport where that has no rails.
	Device string
	// Inflight is the number of bytes in flight.
	Inflight uint64
	// Speed is that of the fastest rail, in bytes per second.
	Speed float64
}

// Paths lists all paths, ordered by peer and then by preference.
func (e *Engine) Paths() []PathStats {
	var out []PathStats
	for _, p := range e.peers.Known() {
		for _, w := range p.Current() {
			out = append(out, PathStats{Peer: p.Name, Transport: w.Carrier.Name, Dead: w.Dead.Load(), Rails: w.Rails.Stats()})
		}
	}
	slices.SortStableFunc(out, func(a, b PathStats) int { return cmp.Compare(a.Peer, b.Peer) })
	return out
}

// Devices adds the rails up by device of this machine, ordered by name.
func (e *Engine) Devices() []DeviceLoad {
	var out []DeviceLoad
	for _, p := range e.Paths() {
		for _, r := range p.Rails {
			name := cmp.Or(r.Local, p.Transport)
			i, found := slices.BinarySearchFunc(out, name, func(d DeviceLoad, n string) int { return cmp.Compare(d.Device, n) })
			if !found {
				out = slices.Insert(out, i, DeviceLoad{Device: name})
			}
			out[i].Inflight += r.Inflight
			out[i].Speed = max(out[i].Speed, r.Speed)
		}
	}
	return out
}
