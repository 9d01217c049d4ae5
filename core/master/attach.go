package master

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mooncake-go/mooncake/core/ledger"
	"github.com/mooncake-go/mooncake/core/master/history"
	"github.com/mooncake-go/mooncake/core/master/journal"
	"github.com/mooncake-go/mooncake/core/master/lease"
	"github.com/mooncake-go/mooncake/core/master/objects"
	"github.com/mooncake-go/mooncake/core/master/segments"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/alloc"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

const (
	opAttach = "master: attach"
	opReport = "master: report"
	opPull   = "master: pull"
	// maxReports bounds the bytes of all reports in progress, which the master keeps until their last pieces: those of ten
	// million objects.
	maxReports = 2 << 30
	// reportTimeout is how long a report may pause between two pieces.
	reportTimeout = 30 * time.Second
)

// Attach makes a client known, resumes the ledgers that the master has written itself, and asks for a report of the
// others. What the master knew of their segments is forgotten: the ledger knows better. These are all segments of the
// client: those of an earlier process of the same store that are not among them have ended with it, unless the master
// is unmounting them already.
func (s *Service) Attach(ctx context.Context, client model.ClientID, ledgers []model.LedgerState) (model.Attached, error) {
	var none model.Attached
	if err := s.admitNode(ctx, opAttach, len(ledgers)); err != nil {
		return none, err
	}
	if len(ledgers) > maxRemount {
		return none, errs.New(errs.InvalidParams, opAttach, "%d segments in one call; the most is %d", len(ledgers), maxRemount)
	}
	for i := range ledgers {
		if l := &ledgers[i]; l.Segment.OnTier() && s.cfg.Tiers == nil {
			return none, errs.WithHint(errs.New(errs.UnableOffload, opAttach, "segment %s (%s) is a storage tier, and this master takes none", l.Segment.ID, l.Segment.Name),
				"start the master with --enable_offload")
		}
		if l := ledgers[i].Layout; l > ledger.Layout {
			return none, errs.WithHint(errs.New(errs.InvalidVersion, opAttach, "the ledger of segment %s has layout %d, this master (version %q) reads and writes %d",
				ledgers[i].Segment.ID, l, s.cfg.Version, ledger.Layout), "the store is of a release that is too far ahead: upgrade the masters")
		}
	}
	if err := s.lockMounts(ctx, opAttach); err != nil {
		return none, err
	}
	defer s.unlockMounts()
	for i := range ledgers {
		if err := s.claimed(opAttach, client, &ledgers[i].Segment); err != nil {
			return none, err
		}
	}
	if s.phase() == following {
		return s.learn(ctx, client, ledgers), nil
	}
	if _, err := s.welcome(client); err != nil {
		return none, err
	}
	s.clients.SetPartial(client, false)
	out := model.Attached{Lease: s.cfg.LeaseTTL, Write: s.cfg.PutReleaseTimeout, Clock: s.shown()}
	for _, m := range s.registry.View().All {
		if m.Client == client && m.Status() != model.SegmentGracefullyUnmounting && !slices.ContainsFunc(ledgers, func(l model.LedgerState) bool { return l.Segment.ID == m.ID }) {
			s.drop(ctx, m, history.SegmentUnmounted)
			s.log.Info("segment dropped: its node attached without it", "segment", m.Name, "id", m.ID.String(), "client", client.String())
		}
	}
	for i := range ledgers {
		out.Segments = append(out.Segments, s.attach(ctx, client, &ledgers[i]))
	}
	return out, nil
}

// attach is Attach of one segment. The caller holds the lock of mounts.
func (s *Service) attach(ctx context.Context, client model.ClientID, l *model.LedgerState) model.LedgerGrant {
	old := s.registry.Get(l.Segment.ID)
	if old != nil && old.Client != client && l.Segment.OnTier() {
		s.registry.SetAbsent(old, s.clock.Now()) // One process at a time has a volume. adopt drops it.
		old = nil
	}
	if old != nil && old.Client == client {
		old.Describe(l.Keeper, l.Largest)
		old.SetKey(l.Grants)
		resume := !l.Wiped && old.Ledger.Resumable(ledger.Epoch(l.Fence), ledger.Seq(l.Seq))
		switch {
		case resume && old.Segment == l.Segment:
			old.Move(false)
			if old.Absent() {
				s.registry.SetAbsent(old, 0)
				s.announceLying(old)
			}
			return model.LedgerGrant{Epoch: uint64(old.Ledger.Epoch()), Resume: true}
		case resume && !old.Ledger.Settled():
			// The node reports when its ledger has all records: else what was removed meanwhile would return.
			old.Move(true)
			s.registry.SetAbsent(old, s.clock.Now())
			return model.LedgerGrant{Epoch: uint64(old.Ledger.Epoch()), Resume: true}
		}
		if l.Segment.OnTier() {
			s.registry.SetAbsent(old, s.clock.Now())
		} else {
			s.drop(ctx, old, history.SegmentUnmounted)
		}
	}
	if m := s.mirrors[l.Segment.ID]; m != nil && m.promoted && m.client == client && m.seg.Segment == l.Segment && !l.Wiped &&
		m.seg.Ledger.Resumable(ledger.Epoch(l.Fence), ledger.Seq(l.Seq)) {
		m.seg.SetKey(l.Grants)
		return model.LedgerGrant{Epoch: l.Fence, Resume: true} // It attaches again before this master serves.
	}
	known := s.continued(ctx, client, l)
	if known != nil {
		known.seg.Describe(l.Keeper, l.Largest)
		known.seg.SetKey(l.Grants)
	}
	// The epoch is above that of every master before, also where the clock of this one is behind.
	epoch := ledger.Epoch(max(s.epoch.Load(), l.Fence+1))
	s.table.NumberFrom(firstPut(epoch))
	s.forgetReport(l.Segment.ID)
	r := &report{client: client, seg: l.Segment, epoch: epoch, lease: l.Lease, puts: l.Puts, wiped: l.Wiped, keeper: l.Keeper, largest: l.Largest, heard: s.clock.Now(), mirror: known, grants: l.Grants}
	s.reports[l.Segment.ID] = r
	return r.grant()
}

// Report takes one piece of what a ledger has. With the last one the segment is mounted and its objects are readable.
func (s *Service) Report(ctx context.Context, client model.ClientID, r model.LedgerReport) error {
	if err := s.admitNode(ctx, opReport, 0); err != nil {
		return err
	}
	if err := s.lockMounts(ctx, opReport); err != nil {
		return err
	}
	defer s.unlockMounts()
	have := s.reports[r.Segment]
	if r.Tail {
		return s.reportTail(ctx, client, have, &r)
	}
	if have == nil {
		if m := s.registry.Get(r.Segment); m != nil && m.Client == client && r.Last && m.Ledger != nil && m.Ledger.Epoch() == ledger.Epoch(r.Epoch) {
			return nil // The answer was lost.
		}
	}
	if have == nil || have.client != client || have.epoch != ledger.Epoch(r.Epoch) || int(r.Index) != len(have.pieces) {
		s.forgetReport(r.Segment)
		return errs.WithHint(errs.New(errs.InvalidParams, opReport, "piece %d of the ledger of segment %s in epoch %d does not continue a report", r.Index, r.Segment, r.Epoch),
			"attach again, as a node does by itself")
	}
	if have.mirror != nil { // The node has rewritten what comes after it.
		s.dropMirror(ctx, have.mirror)
		have.mirror = nil
	}
	have.heard = s.clock.Now()
	if s.reported+len(r.Batch) > maxReports {
		s.forgetReport(r.Segment)
		return errs.WithHint(errs.New(errs.UnavailableInCurrentStatus, opReport, "the reports in progress have %d bytes, the most is %d", s.reported, maxReports),
			"attach again, as a node does by itself")
	}
	have.bytes += len(r.Batch)
	s.reported += len(r.Batch)
	have.pieces = append(have.pieces, r.Batch)
	if !r.Last {
		return nil
	}
	s.forgetReport(r.Segment)
	switch s.phase() {
	case following:
		if err := s.newMirror(ctx, have, ledger.Seq(r.Seq)); err != nil {
			return err
		}
		have.mirror, have.pieces, have.bytes = s.mirrors[r.Segment], nil, 0
		s.reports[r.Segment] = have
		return nil
	case recovering: // The mirrors are settled first, since their values may be replaced.
		s.unlockMounts()
		select {
		case <-s.recovered:
		case <-ctx.Done():
		}
		s.mounting <- struct{}{}
	}
	return s.adopt(ctx, have, ledger.Seq(r.Seq))
}

// reportTail takes the batches after those that a mirror has. Called with the mounts locked.
func (s *Service) reportTail(ctx context.Context, client model.ClientID, have *report, r *model.LedgerReport) error {
	if have == nil || have.mirror == nil || s.mirrors[r.Segment] != have.mirror || have.client != client || have.epoch != ledger.Epoch(r.Epoch) {
		return errs.WithHint(errs.New(errs.InvalidParams, opReport, "batches of the ledger of segment %s in epoch %d do not continue what is known of it", r.Segment, r.Epoch),
			"attach again, as a node does by itself")
	}
	have.heard = s.clock.Now()
	err := s.followApply(ctx, have.mirror, r.Batch)
	if err == nil && r.Last && have.mirror.seq != ledger.Seq(r.Seq) {
		err = fmt.Errorf("%w: the last batch is %d, and %d was the last to come", ledger.ErrGap, r.Seq, have.mirror.seq)
	}
	if err == nil && r.Last && s.phase() != following {
		s.forgetReport(r.Segment)
		err = s.promote(ctx, have, ledger.Seq(r.Seq))
	}
	if err == nil {
		return nil
	}
	s.forgetReport(r.Segment)
	s.dropMirror(ctx, have.mirror)
	return errs.WithHint(errs.Wrap(errs.InvalidParams, opReport+": the ledger of segment "+r.Segment.String(), err), "attach again, as a node does by itself")
}

// forgetReports gives up reports that a node does not go on with. The caller holds the lock of mounts.
func (s *Service) forgetReports(now lease.Instant) {
	for id, r := range s.reports {
		if now.Sub(r.heard) > reportTimeout {
			s.forgetReport(id)
		}
	}
}

func (s *Service) forgetReport(id model.SegmentID) {
	if r := s.reports[id]; r != nil {
		s.reported -= r.bytes
		delete(s.reports, id)
	}
}

// Pull waits for records for the ledgers of a client.
func (s *Service) Pull(ctx context.Context, client model.ClientID, round uint64, acks []model.LedgerAck) (model.Pulled, error) {
	// A master that quiesces refuses other calls, but not this one.
	if len(acks) > s.cfg.MaxBatch {
		return model.Pulled{}, errs.New(errs.InvalidParams, opPull, "%d ledgers in one call; the most is %d", len(acks), s.cfg.MaxBatch)
	}
	feed := s.feeds.Of(client)
	if feed == nil || !feed.Has(acks) || !s.clients.Touch(client, s.clock.Now()) {
		return model.Pulled{}, errs.WithHint(errs.New(errs.UnavailableInCurrentStatus, opPull, "client %s has not attached these segments", client),
			"attach, as a node does by itself")
	}
	feed.Heard(round) // Before the puts return that wait for the acknowledgement: they can be read.
	s.pool.Enter()
	feed.Acknowledge(acks, func(id model.SegmentID, free []alloc.Extent) {
		if m := s.registry.Get(id); m != nil {
			s.pool.Freed(ctx, m, free)
		}
	})
	s.pool.Leave()
	for _, a := range acks {
		if m := s.registry.Get(a.Segment); m != nil && m.Moved() && m.Ledger.Settled() {
			return model.Pulled{}, errs.WithHint(errs.New(errs.UnavailableInCurrentStatus, opPull, "segment %s lies elsewhere than before, and its ledger has all records now", m.ID),
				"attach it again, as a node does by itself")
		}
	}
	batches, next, err := feed.Pull(ctx, acks, round == 0)
	return model.Pulled{Round: next, Batches: batches, Followers: s.followers.List(s.leads.Now())}, err
}

// Quiesce refuses further calls, has the ledgers learn what this master has answered, for up to a second, and ends the
// pulls. So a master that comes after this one knows all of it. Stop is still to be called.
func (s *Service) Quiesce(ctx context.Context) {
	if s.enter(idle) >= recovering {
		s.tellLedgers(ctx)
		s.feeds.Close()
	}
}

// tellLedgers has the ledgers learn what this master has answered, for up to ackTimeout.
func (s *Service) tellLedgers(ctx context.Context) {
	var all touched
	for _, m := range s.registry.View().All {
		all.add(m)
	}
	if late, err := s.await(ctx, all, nil); late != nil {
		s.log.Warn("nodes did not confirm their ledgers before the master stopped; their last objects may be lost", "segments", late.names(), "error", err)
	}
}

// ackTimeout is how long a call waits for a ledger, ackSteps in how many steps: a pause of this process, in which it could not
// hear a node, ends one of them at most.
const (
	ackTimeout = time.Second
	ackSteps   = 10
)

// patience returns a context that ends when this process has run for ackTimeout. The function that it returns releases it.
func patience(ctx context.Context) (context.Context, func()) {
	ctx, end := context.WithCancelCause(ctx)
	var (
		mu    sync.Mutex
		steps int
		timer *time.Timer
	)
	mu.Lock()
	defer mu.Unlock()
	timer = time.AfterFunc(ackTimeout/ackSteps, func() {
		mu.Lock()
		defer mu.Unlock()
		if steps++; steps == ackSteps {
			end(journal.ErrSilent)
		} else if ctx.Err() == nil {
			timer.Reset(ackTimeout / ackSteps)
		}
	})
	return ctx, func() {
		end(nil)
		timer.Stop()
	}
}

// await returns when the ledgers of two sets of segments have all records so far, or when the time is over. late are those of the
// first set whose nodes have not confirmed theirs by then, nil for none, and err says why.
func (s *Service) await(ctx context.Context, needed, others touched) (late touched, err error) {
	if len(needed)+len(others) == 0 {
		return nil, nil
	}
	ctx, release := patience(ctx)
	defer release()
	marks := make(map[*segments.Segment]ledger.Seq, len(needed)+len(others))
	for _, set := range []touched{needed, others} {
		for m := range set {
			marks[m] = m.Ledger.Mark()
			m.Ledger.Hurry(marks[m])
		}
	}
	for m, mark := range marks {
		if e := m.Ledger.Wait(ctx, mark); e != nil && m.Alive() && needed.contains(m) {
			err = e
			late.put(m)
		}
	}
	return late, err
}

// awaitFrees waits until the memory is free that waits for a ledger, also on nodes that are behind if patient. It reports whether
// some memory waited, and whether all of that is free now: a node may not confirm it in time.
func (s *Service) awaitFrees(ctx context.Context, patient bool) (some, all bool) {
	var waiting touched
	all = true
	for _, m := range s.registry.View().Open {
		if !m.Ledger.Pending() {
			continue
		}
		some = true
		if patient || !m.Ledger.Behind() {
			waiting.add(m)
		} else {
			all = false
		}
	}
	late, _ := s.await(ctx, waiting, nil)
	return some, all && late == nil
}

// unsettled are the segments whose ledgers lack records. A value of a key may have left the table before, evicted, moved
// away, or displaced by an upsert that failed here, while its ledger does not know yet. It must not come back when the key
// has been replaced or removed. A node that is behind is left out: a call has waited for it in vain, and another wait would not
// make it confirm sooner.
func (s *Service) unsettled() (all touched) {
	for _, m := range s.registry.View().All {
		if !m.Ledger.Settled() && !m.Ledger.Behind() {
			all.add(m)
		}
	}
	return all
}

// touched are segments whose ledgers got records. The zero value has none.
type touched map[*segments.Segment]struct{}

func (t *touched) add(m *segments.Segment) {
	if m.Ledger == nil || m.Absent() { // An absent one learns of it when it returns.
		return
	}
	t.put(m)
}

func (t *touched) put(m *segments.Segment) {
	if *t == nil {
		*t = touched{}
	}
	(*t)[m] = struct{}{}
}

func (t touched) contains(m *segments.Segment) bool {
	_, ok := t[m]
	return ok
}

// meets reports whether two sets share a segment.
func (t touched) meets(other touched) bool {
	for m := range t {
		if other.contains(m) {
			return true
		}
	}
	return false
}

// names returns the names of the segments, in order.
func (t touched) names() (names []string) {
	for m := range t {
		names = append(names, m.Name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// has reports whether a piece of a replica lies in one of the segments.
func (t touched) has(replicas []model.Replica) bool {
	for i := range replicas {
		for _, part := range replicas[i].Parts {
			for m := range t {
				if m.ID == part.SegmentID {
					return true
				}
			}
		}
	}
	return false
}

func (t *touched) addAll(extents []segments.Extent) {
	for i := range extents {
		t.add(extents[i].Seg)
	}
}

func (t *touched) addBin(bin *objects.Bin) {
	for _, extents := range bin.Each {
		t.addAll(extents)
	}
}

// lateError is the error of a call whose records nodes did not take in time.
func lateError(op string, late touched, err error) error {
	return errs.WithHint(errs.WithClass(errs.ClassTransientPeer, "", errs.New(errs.UnavailableInCurrentStatus, op,
		"the nodes of segments %s did not confirm within %s: %w", shortList(late.names()), ackTimeout, err)),
		"try again; if it goes on, check whether the nodes run and reach the master")
}

// shortList names the first of some names.
func shortList(names []string) string {
	const most = 4
	if len(names) > most {
		return strings.Join(names[:most], ", ") + ", ..."
	}
	return strings.Join(names, ", ")
}
