package master

import (
	"context"
	"errors"
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
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/alloc"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// slack is how much longer than it must be old memory stays in use.
const slack = time.Second

// stripeTimeout is how long the parts of a striped replica wait for the segments of the others.
const stripeTimeout = 30 * time.Second

// adoption enters what one ledger has into the table.
type adoption struct {
	s   *Service
	seg *segments.Segment
	// now is the instant of the adoption, until that when readers of the masters before must have ended: their masters
	// were valid for journal.Validity after they heard of the node, and granted leases until then.
	now, until lease.Instant
	follow     func(*ledger.Entry)     // enters it where the segment is only followed, else nil
	live       map[ledger.Put]struct{} // the puts that count, nil for all

	objects, unfinished, held, dropped, refused int
}

// adopt mounts a segment with what its ledger has. Called with the mounts locked.
func (s *Service) adopt(ctx context.Context, r *report, seq ledger.Seq) error {
	live := s.returning(ctx, r.seg)
	if err := s.supersede(ctx, opReport, r.client, r.seg); err != nil {
		return err
	}
	m, known, err := s.registry.Prepare(r.client, r.seg)
	if err != nil {
		return err
	}
	if known {
		return errs.New(errs.InvalidParams, opReport, "segment %s (%s) is mounted already", m.ID, m.Name)
	}
	m.Describe(r.keeper, r.largest)
	m.SetKey(r.grants)
	feed := s.feeds.Open(r.client)
	m.Ledger = journal.NewStream(feed, r.epoch, seq)
	now := s.clock.Now()
	a := adoption{s: s, seg: m, now: now, until: now.Add(journal.Validity + r.lease + slack), live: live}
	s.pool.Enter()
	err = s.pool.AddSpace(ctx, m)
	if err == nil {
		feed.Add(m.ID, m.Ledger)
		err = a.run(ctx, r)
	}
	s.pool.Leave()
	if err != nil {
		s.drop(ctx, m, history.SegmentUnmounted)
		if errors.Is(err, ledger.ErrDamaged) {
			err = errs.Wrap(errs.ChecksumMismatch, "", err)
		}
		return errs.Wrap(errs.CodeOf(err), opReport+": the ledger of segment "+m.ID.String()+" ("+m.Name+")", err)
	}
	if a.refused > 0 || r.wiped {
		// Readers of the masters before may rely on memory that this one does not know to be in use.
		m.CloseUntil(a.until)
	}
	m.Adopted = uint64(a.objects)
	s.publish(m, now)
	s.log.Info("segment attached", "segment", m.Name, "id", m.ID.String(), "client", m.Client.String(), "size", metrics.Bytes(m.Size),
		"objects", a.objects, "unfinished", a.unfinished, "held", a.held, "dropped", a.dropped)
	if a.refused > 0 {
		s.log.Warn("objects are lost: the allocator places objects otherwise than the one before and cannot take their memory back",
			"segment", m.Name, "objects", a.refused, "closed_for", a.until.Sub(now))
	}
	return nil
}

// returning drops a storage tier that a node attaches as another client, or without records that it lacked, and returns the
// puts that count of what the tier is going to report: it may also have what was removed meanwhile. nil stands for all.
func (s *Service) returning(ctx context.Context, seg model.Segment) map[ledger.Put]struct{} {
	old := s.registry.Get(seg.ID)
	if old == nil || !seg.OnTier() {
		return nil
	}
	live := map[ledger.Put]struct{}{}
	var extents []segments.Extent
	for at, more := objects.Cursor(0), true; more; more = at != 0 {
		extents, at = s.table.Extents(at, extents[:0])
		for _, e := range extents {
			if e.Seg == old {
				live[e.Put] = struct{}{}
			}
		}
	}
	s.drop(ctx, old, history.SegmentUnmounted)
	return live
}

// leastEntry is less than what any entry of a report takes, in bytes.
const leastEntry = 16

// piece is what one piece of a report has.
type piece struct {
	entries []ledger.Entry
	extents []alloc.Extent // of the entries
	err     error
}

// run enters what the pieces of a report have. Another goroutine decodes the next pieces meanwhile.
func (a *adoption) run(ctx context.Context, r *report) error {
	a.s.table.Reserve(int(min(r.puts, uint64(r.bytes/leastEntry))))
	decoded, used, stop := make(chan piece, 1), make(chan piece, 2), make(chan struct{})
	used <- piece{}
	used <- piece{}
	go a.decode(r.pieces, decoded, used, stop)
	defer func() {
		close(stop)
		for range decoded { // It ends when the other goroutine has.
		}
	}()
	for p := range decoded {
		if p.err != nil {
			return p.err
		}
		if err := a.enterAll(ctx, &p); err != nil {
			return err
		}
		used <- piece{entries: p.entries[:0], extents: p.extents[:0]}
	}
	return nil
}

// decode decodes pieces into memory that was used before, until one is damaged or stop is closed.
func (a *adoption) decode(pieces [][]byte, to chan<- piece, used <-chan piece, stop <-chan struct{}) {
	defer close(to)
	last := uint64(0) // the end of the extent before
	for i, b := range pieces {
		pieces[i] = nil
		if len(b) == 0 {
			continue
		}
		var p piece
		select {
		case p = <-used:
		case <-stop:
			return
		}
		p.err = ledger.Entries(b, func(e *ledger.Entry) error {
			x := e.Extents[0]
			if len(e.Extents) != 1 || x.Offset < last || x.End() > a.seg.Size {
				return fmt.Errorf("%w: put %d lies at %d to %d, where the memory is in use until %d, of %d bytes", ledger.ErrDamaged, e.Put, x.Offset, x.End(), last, a.seg.Size)
			}
			last = x.End()
			p.extents = append(p.extents, alloc.Extent{Space: a.seg.Space, Offset: x.Offset, Size: x.Length})
			p.entries = append(p.entries, *e)
			return nil
		})
		select {
		case to <- p:
		case <-stop:
			return
		}
		if p.err != nil {
			return
		}
	}
}

// enterAll reserves the memory of the entries of a piece and enters them.
func (a *adoption) enterAll(ctx context.Context, p *piece) error {
	each, err := a.s.pool.Reserve(ctx, a.seg, p.extents)
	if err != nil {
		return err
	}
	for i := range p.entries {
		e := &p.entries[i]
		if each[i] != nil {
			a.refused++
			a.seg.Ledger.Gone(e.Put)
			continue
		}
		a.enter(ctx, e)
	}
	return nil
}

// enter enters one entry: a replica, a part of one, or memory that is not free yet.
func (a *adoption) enter(ctx context.Context, e *ledger.Entry) {
	s := a.s
	if a.follow != nil {
		kept := *e
		a.follow(&kept)
		return
	}
	part := segments.Extent{Seg: a.seg, Offset: e.Extents[0].Offset, Size: e.Extents[0].Length, Put: e.Put}
	s.table.NumberFrom(uint64(e.Put))
	if _, counts := a.live[e.Put]; a.live != nil && !counts {
		a.dropped++
		s.holdDropped(part, true, a.now, a.until)
		return
	}
	switch {
	case e.State == ledger.Held:
		a.held++
		until := a.until
		if !e.Ended { // Its writer was given up, and may go on as that of a copy does.
			until = max(until, a.now.Add(s.cfg.PutReleaseTimeout))
		}
		s.pool.Hold(part, until, !e.Ended)
	case e.State == ledger.Writing && e.Flags&ledger.Copied != 0:
		// A copy in progress ends with its master. Its writer may go on for a while.
		a.dropped++
		s.holdDropped(part, false, a.now, a.until)
	default:
		f := a.found(e)
		if e.Parts == 1 {
			f.Parts = []segments.Extent{part}
			a.settle(ctx, f)
			return
		}
		if f = s.stripes.add(f, e, part, a.now, a.until); f != nil {
			a.settle(ctx, f)
		}
	}
}

// found describes an entry for the table.
func (a *adoption) found(e *ledger.Entry) *objects.Found {
	f := &objects.Found{
		Key: e.Name, Put: uint64(e.Value), Size: e.Size, Writer: a.s.table.Remember(e.Writer), Complete: e.State == ledger.Complete, Checksum: e.Checksum, Grains: e.Grains,
		Settings: objects.Settings{HardPin: e.Flags&ledger.HardPin != 0, Group: e.Group, DataType: model.DataType(e.Type)},
	}
	if e.SoftUntil != 0 {
		if left := time.Until(time.UnixMilli(int64(e.SoftUntil))); left > 0 {
			f.PinEnd = a.now.Add(left)
		}
	}
	return f
}

// settle enters a whole replica into the table.
func (a *adoption) settle(ctx context.Context, f *objects.Found) {
	s := a.s
	var bin objects.Bin
	switch out := s.table.Adopt(f, a.now, a.until, &bin); out {
	case objects.Done:
		if s.tenants != nil {
			s.usage.ChargeAnyway(quota.Owner(f.Key), f.Footprint())
		}
		if a.objects++; !f.Complete {
			a.unfinished++
			s.revokeAdopted(ctx, f)
		}
	default:
		// A later value took its place, or it is there twice.
		a.dropped++
		for _, p := range f.Parts {
			s.holdDropped(p, f.Complete, a.now, a.until)
		}
	}
	s.reclaim(ctx, &bin, history.ReplacedByUpsert, false)
}

// revokeAdopted revokes an adopted put whose writer has revoked it while this master did not know it. Called in the pool's
// gate.
func (s *Service) revokeAdopted(ctx context.Context, f *objects.Found) {
	by, ok := s.revoked.Find(f.Put)
	if !ok {
		return
	}
	var bin objects.Bin
	s.table.Revoke(f.Key, f.Put, s.table.Known(by.Client), &bin) // It fails for a client that is not the writer.
	s.reclaim(ctx, &bin, history.PutRevoked, !by.Quarantined)
}

// holdDropped keeps the memory of a value that is not adopted: until readers of the masters before must have ended and, if the
// put has not ended as far as its ledger knows, its writer.
func (s *Service) holdDropped(e segments.Extent, ended bool, now, until lease.Instant) {
	if ended {
		s.pool.HoldRead(e, until)
	} else {
		s.pool.HoldPut(e, max(until, now.Add(s.cfg.PutReleaseTimeout)))
	}
}

// expireStripes gives up the stripes whose other parts do not come. Called with the mounts locked.
func (s *Service) expireStripes(ctx context.Context, now lease.Instant) {
	for id, x := range s.stripes {
		if now.Sub(x.since) < stripeTimeout {
			continue
		}
		delete(s.stripes, id)
		s.pool.Enter()
		for _, p := range x.Parts {
			if p.Seg != nil {
				s.holdDropped(p, x.Complete, now, x.until)
			}
		}
		s.pool.Leave()
	}
}
