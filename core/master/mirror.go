package master

import (
	"context"
	"fmt"
	"time"

	"github.com/mooncake-go/mooncake/core/ledger"
	"github.com/mooncake-go/mooncake/core/master/history"
	"github.com/mooncake-go/mooncake/core/master/journal"
	"github.com/mooncake-go/mooncake/core/master/lease"
	"github.com/mooncake-go/mooncake/core/master/metrics"
	"github.com/mooncake-go/mooncake/core/master/objects"
	"github.com/mooncake-go/mooncake/core/master/quota"
	"github.com/mooncake-go/mooncake/core/master/segments"
	"github.com/mooncake-go/mooncake/sdk/alloc"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// silence is after what time without a report a master does not wait for a node any more when it takes over.
const silence = 5 * time.Second

// newMirror makes the mirror of the ledger that a node has reported. Called with the mounts locked.
func (s *Service) newMirror(ctx context.Context, r *report, seq ledger.Seq) error {
	seg, _, err := s.registry.Prepare(r.client, r.seg)
	if err != nil {
		return err
	}
	seg.Describe(r.keeper, r.largest)
	seg.SetKey(r.grants)
	m := &mirror{
		seg: seg, client: r.client, fence: r.epoch, seq: seq, lease: r.lease, heard: s.leads.Now(),
		puts: map[ledger.Put]mirrored{}, open: map[ledger.Put]struct{}{}, cold: map[ledger.Put]*ledger.Entry{},
	}
	s.mirrors[seg.ID] = m
	a := adoption{s: s, seg: seg, now: s.clock.Now()}
	a.follow = func(e *ledger.Entry) { s.followEnter(ctx, m, e) }
	s.pool.Enter()
	err = s.pool.AddSpace(ctx, seg)
	if err == nil {
		err = a.run(ctx, r)
	}
	s.pool.Leave()
	if err == nil && a.refused > 0 {
		err = fmt.Errorf("the allocator places objects otherwise than that of the leader and cannot take the memory of %d back", a.refused)
	}
	if err != nil {
		s.dropMirror(ctx, m)
		return errs.Wrap(errs.CodeOf(err), opReport+": the ledger of segment "+seg.ID.String()+" ("+seg.Name+")", err)
	}
	s.log.Info("segment followed", "segment", seg.Name, "id", seg.ID.String(), "client", r.client.String(), "size", metrics.Bytes(seg.Size), "puts", len(m.puts))
	return nil
}

// dropMirror forgets a ledger. When its node attaches, it reports all of it. Called with the mounts locked.
func (s *Service) dropMirror(ctx context.Context, m *mirror) {
	delete(s.mirrors, m.seg.ID)
	s.drop(ctx, m.seg, history.SegmentUnmounted)
}

// followApply applies batches of the ledger. After an error the mirror is not to be used. Called with the mounts locked.
func (s *Service) followApply(ctx context.Context, m *mirror, batches []byte) error {
	m.heard = s.leads.Now()
	s.pool.Enter()
	defer s.pool.Leave()
	seq, err := ledger.Changes(batches, m.seq, func(c *ledger.Change) error {
		if c.Kind == ledger.Began {
			return s.followBegin(ctx, m, c)
		}
		x, known := m.puts[c.Put]
		if !known {
			return fmt.Errorf("%w: a record of put %d, which did not begin", ledger.ErrDamaged, c.Put)
		}
		switch c.Kind {
		case ledger.Committed:
			s.followCommit(ctx, m, c, x)
		case ledger.Unlinked:
			ended := m.ended(c.Put)
			s.followWithdraw(m, c.Put, x)
			m.cold[c.Put] = &ledger.Entry{
				Version: c.Version, State: ledger.Held, Ended: ended,
				Object: ledger.Object{Parts: 1, Extents: []ledger.Extent{{Offset: x.offset, Length: x.size}}},
			}
		default:
			s.followWithdraw(m, c.Put, x)
			delete(m.puts, c.Put)
			s.pool.Free(ctx, []segments.Extent{{Seg: m.seg, Offset: x.offset, Size: x.size}})
		}
		return nil
	})
	m.seq = seq
	return err
}

// followBegin reserves the memory of a put and enters it.
func (s *Service) followBegin(ctx context.Context, m *mirror, c *ledger.Change) error {
	x := c.Extents[0]
	if _, known := m.puts[c.Put]; known || len(c.Extents) != 1 || x.End() > m.seg.Size {
		return fmt.Errorf("%w: put %d begins twice, or does not lie in the segment", ledger.ErrDamaged, c.Put)
	}
	each, err := s.pool.Reserve(ctx, m.seg, []alloc.Extent{{Space: m.seg.Space, Offset: x.Offset, Size: x.Length}})
	if err == nil {
		err = each[0]
	}
	if err != nil {
		return err
	}
	e := c.Clone()
	s.followEnter(ctx, m, &e)
	return nil
}

// followEnter enters a put whose memory is reserved. Called in the pool's gate.
func (s *Service) followEnter(ctx context.Context, m *mirror, e *ledger.Entry) {
	x := mirrored{offset: e.Extents[0].Offset, size: e.Extents[0].Length}
	s.table.NumberFrom(uint64(e.Put))
	if e.State == ledger.Held || e.Parts > 1 || e.State == ledger.Writing && e.Flags&ledger.Copied != 0 {
		m.cold[e.Put] = e
		m.puts[e.Put] = x
		return
	}
	f := s.followFound(m, e)
	f.Parts = []segments.Extent{{Seg: m.seg, Offset: x.offset, Size: x.size, Put: e.Put}}
	var bin objects.Bin
	if out := s.table.Adopt(f, s.clock.Now(), 0, &bin); out == objects.Done {
		x.object = f.Object
		if !f.Complete {
			m.open[e.Put] = struct{}{}
		}
		if s.tenants != nil {
			s.usage.ChargeAnyway(quota.Owner(f.Key), f.Footprint())
		}
	} else {
		m.cold[e.Put] = replaced(x, e.Ended)
	}
	m.puts[e.Put] = x
	s.displace(&bin)
}

// followFound describes an entry for the table.
func (s *Service) followFound(m *mirror, e *ledger.Entry) *objects.Found {
	a := adoption{s: s, seg: m.seg, now: s.clock.Now()}
	return a.found(e)
}

// replaced is the cold entry of a value that a later one has replaced.
func replaced(x mirrored, ended bool) *ledger.Entry {
	return &ledger.Entry{Ended: ended, Object: ledger.Object{Extents: []ledger.Extent{{Offset: x.offset, Length: x.size}}}}
}

// displace notes that later values have replaced the objects in a bin. The records of these follow.
func (s *Service) displace(bin *objects.Bin) {
	for g, extents := range bin.Each {
		if s.tenants != nil {
			s.usage.Refund(quota.Owner(g.Key), g.Footprint)
		}
		for _, e := range extents {
			m := s.mirrors[e.Seg.ID]
			if m == nil || m.seg != e.Seg {
				continue
			}
			x := m.puts[e.Put]
			x.object = 0
			m.puts[e.Put], m.cold[e.Put] = x, replaced(x, m.ended(e.Put))
			delete(m.open, e.Put)
		}
	}
}

// followCommit notes that a put has ended.
func (s *Service) followCommit(ctx context.Context, m *mirror, c *ledger.Change, x mirrored) {
	delete(m.open, c.Put)
	e := m.cold[c.Put]
	switch {
	case e == nil:
		s.table.Confirm(x.object, s.followFound(m, &ledger.Entry{Version: c.Version, State: ledger.Complete, Object: ledger.Object{Size: x.size}, Ending: c.Ending}), s.clock.Now())
	case e.State == ledger.Writing:
		e.State, e.Ended, e.Ending = ledger.Complete, true, c.Ending
		if e.Parts == 1 { // A copy.
			delete(m.cold, c.Put)
			s.followEnter(ctx, m, e)
		}
	}
}

// followWithdraw takes a put out of the table.
func (s *Service) followWithdraw(m *mirror, p ledger.Put, x mirrored) {
	delete(m.open, p)
	delete(m.cold, p)
	if x.object == 0 {
		return
	}
	var bin objects.Bin
	s.table.Withdraw(x.object, uint64(p), &bin)
	if s.tenants != nil {
		for g := range bin.Each {
			s.usage.Refund(quota.Owner(g.Key), g.Footprint)
		}
	}
	x.object = 0
	m.puts[p] = x
}

// promote begins to write the ledger of a mirror that has all of it, up to batch seq, and that an epoch has fenced. settle
// mounts the segment. Called with the mounts locked.
func (s *Service) promote(ctx context.Context, r *report, seq ledger.Seq) error {
	if err := s.supersede(ctx, opReport, r.client, r.seg); err != nil {
		return err
	}
	if _, _, err := s.registry.Prepare(r.client, r.seg); err != nil {
		return err
	}
	m := r.mirror
	feed := s.feeds.Open(r.client)
	m.seg.Ledger = journal.NewStream(feed, r.epoch, seq)
	feed.Add(m.seg.ID, m.seg.Ledger)
	m.promoted = true
	return nil
}

// followSettle mounts the segment of a mirror that was promoted, and adopts what the table does not have. Readers of the masters
// before rely on what lies there until an instant. Called in the pool's gate with the mounts locked.
func (s *Service) followSettle(ctx context.Context, m *mirror, until lease.Instant) {
	now := s.clock.Now()
	for p := range m.open {
		s.table.Recommit(m.puts[p].object, uint64(p))
	}
	a := adoption{s: s, seg: m.seg, now: now, until: until}
	for p, e := range m.cold {
		if e.State == 0 {
			x := e.Extents[0]
			s.holdDropped(segments.Extent{Seg: m.seg, Offset: x.Offset, Size: x.Length, Put: p}, e.Ended, now, until)
			continue
		}
		a.enter(ctx, e)
	}
	m.seg.Adopted = uint64(len(m.puts) - len(m.cold) + a.objects)
	s.publish(m.seg, now)
	s.log.Info("segment attached, which this master has followed", "segment", m.seg.Name, "id", m.seg.ID.String(), "client", m.client.String(),
		"size", metrics.Bytes(m.seg.Size), "objects", m.seg.Adopted, "held", a.held, "dropped", a.dropped)
}

// publish makes an adopted segment readable.
func (s *Service) publish(m *segments.Segment, now lease.Instant) {
	s.health.Mount(m, now)
	s.registry.Add(m)
	s.setQuotas()
}

// ended reports whether the writer of a put has ended.
func (m *mirror) ended(p ledger.Put) bool {
	if e := m.cold[p]; e != nil {
		return e.Ended
	}
	_, open := m.open[p]
	return !open
}
