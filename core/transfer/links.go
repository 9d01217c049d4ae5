package transfer

import (
	"cmp"
	"slices"
	"time"
)

// LinkStats is a path to a peer over one transport.
type LinkStats struct {
	Peer, Transport string
	// Dead: the path ended; the next request connects anew.
	Dead bool
	// Rails are the ways of the path; one without names where the transport has none.
	Rails []RailStats
}

// RailStats is a way of a path, with what it did since the path was opened.
type RailStats struct {
	// ID is that of the transport, Local and Remote are the devices.
	ID            uint16
	Local, Remote string
	// State is up, down (says the transport), paused (after errors), or returning.
	State string
	// Bytes and Slices arrived; Errors are slices that did not; Pauses the times the rail
	// was paused.
	Bytes, Slices, Errors, Pauses uint64
	// Inflight is what is under way, in bytes.
	Inflight uint64
	// Speed is the measured speed in bytes per second, 0 before it is known.
	Speed float64
}

// DeviceLoad is a device of this machine over all peers.
type DeviceLoad struct {
	// Device is its name; the name of the transport where that has no rails.
	Device string
	// Inflight is what is under way, in bytes.
	Inflight uint64
	// Speed is that of the fastest rail, in bytes per second.
	Speed float64
}

// Links lists all paths, ordered by peer and then by preference.
func (e *Engine) Links() []LinkStats {
	var out []LinkStats
	for _, p := range e.known() {
		p.mu.Lock()
		links := p.links
		p.mu.Unlock()
		for _, l := range links {
			out = append(out, LinkStats{Peer: p.name, Transport: l.carrier.Name, Dead: l.dead.Load(), Rails: l.rails.stats()})
		}
	}
	slices.SortStableFunc(out, func(a, b LinkStats) int { return cmp.Compare(a.Peer, b.Peer) })
	return out
}

func (r *rails) stats() []RailStats {
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make([]RailStats, 0, len(r.list))
	for _, w := range r.list {
		s := RailStats{
			ID: uint16(w.ID), Local: w.Local, Remote: w.Remote, State: "down", Bytes: w.moved, Slices: w.ended, Errors: w.errors,
			Pauses: w.health.pauses, Inflight: uint64(w.bytes), Speed: w.speed.mean,
		}
		if w.Up {
			s.State = w.health.state(now)
		}
		out = append(out, s)
	}
	return out
}

// Devices sums the rails up by device of this machine, ordered by name.
func (e *Engine) Devices() []DeviceLoad {
	var out []DeviceLoad
	for _, l := range e.Links() {
		for _, r := range l.Rails {
			name := cmp.Or(r.Local, l.Transport)
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
