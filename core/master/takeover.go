package master

import (
	"context"
	"net"
	"slices"
	"time"

	"github.com/mooncake-go/mooncake/core/ledger"
	"github.com/mooncake-go/mooncake/core/master/journal"
	"github.com/mooncake-go/mooncake/core/master/leadership"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// recoverTick is how often a recovering master looks whether all nodes have attached.
const recoverTick = 2 * time.Millisecond

// Lead makes a Service that is one of several masters serve, for a leadership with a number. It has started. After
// Suspend it goes on with what it knows, which holds as long as no other master has led meanwhile. A Service that has
// followed another master serves after Recover only.
func (s *Service) Lead(t leadership.Term, view uint64) {
	s.mounting <- struct{}{}
	defer s.unlockMounts()
	if s.leads.Begin(t, view) { // A later term finds the ledgers as this Service has left them.
		s.epoch.Store(t.Epoch())
		s.table.NumberFrom(model.FirstPut(t.Epoch()))
	}
	clear(s.reports)
	s.reported = 0
	next := serving
	if len(s.mirrors) > 0 {
		next = recovering
	}
	s.fresh.Store(s.enter(next) == following)
}

// Suspend ends serving until Lead, and has the ledgers learn what was answered, until ctx ends. No deadline
// passes meanwhile.
func (s *Service) Suspend(ctx context.Context) {
	s.enter(idle)
	s.tellLedgers(ctx)
}

// Learn makes a Service that does not lead take Attach and Report, so that the nodes can tell it what their ledgers have.
func (s *Service) Learn() {
	s.mounting <- struct{}{}
	defer s.unlockMounts()
	s.enter(following)
}

// Recover waits for the nodes that a Service has followed to attach, until they have or for half a second and a
// millisecond a segment, and serves then. A node that comes later reports all that its ledgers have.
func (s *Service) Recover(ctx context.Context) {
	if s.phase() != recovering {
		return
	}
	began := time.Now()
	segments, _ := s.followed()
	wait, cancel := context.WithTimeout(ctx, 500*time.Millisecond+time.Duration(segments)*time.Millisecond)
	defer cancel()
	every(wait, recoverTick, func(context.Context) {
		if s.missing() == 0 {
			cancel()
		}
	})
	s.mounting <- struct{}{}
	defer s.unlockMounts()
	late, longest := 0, time.Duration(0)
	for _, m := range s.mirrors {
		if !m.promoted {
			late++
			s.dropMirror(ctx, m)
		}
		longest = max(longest, m.lease)
	}
	until := s.clock.Now().Add(journal.Validity + longest + slack)
	s.table.Protect(until)
	s.pool.Enter()
	for _, m := range s.mirrors {
		s.followSettle(ctx, m, until)
	}
	s.pool.Leave()
	s.log.Info("this master has taken over what it followed", "segments", len(s.mirrors), "late_segments", late, "objects", s.table.Readable(),
		"after", time.Since(began).Round(time.Millisecond))
	clear(s.mirrors)
	s.enter(serving)
	close(s.recovered)
}

// followed is how many segments this master follows, and how many puts lie there.
func (s *Service) followed() (segments, puts int) {
	s.mounting <- struct{}{}
	defer s.unlockMounts()
	for _, m := range s.mirrors {
		puts += len(m.puts)
	}
	return len(s.mirrors), puts
}

// Followed returns how many segments a Service that does not lead knows, and Led how many segments with ledgers one that leads
// has: another master that has followed so many misses none of their objects.
func (s *Service) Followed() int {
	n, _ := s.followed()
	return n
}

// Led belongs to Followed. whole says that all segments have ledgers.
func (s *Service) Led() (n int, whole bool) {
	whole = true
	for _, m := range s.registry.View().All {
		switch {
		case m.Ledger == nil:
			whole = false
		case !m.Absent():
			n++
		}
	}
	return n, whole
}

// missing is how many followed segments have not attached whose nodes were heard of late.
func (s *Service) missing() (n int) {
	s.mounting <- struct{}{}
	defer s.unlockMounts()
	now := s.leads.Now()
	for _, m := range s.mirrors {
		if !m.promoted && time.Duration(now-m.heard) < silence {
			n++
		}
	}
	return n
}

// maxAddress bounds the address of a follower, in bytes.
const maxAddress = 512

// Follow makes the address of a follower known to the nodes.
func (s *Service) Follow(ctx context.Context, address string) error {
	const op = "master: follow"
	if err := s.admit(ctx, op, 0); err != nil {
		return err
	}
	if _, _, err := net.SplitHostPort(address); err != nil || len(address) > maxAddress {
		return errs.New(errs.InvalidParams, op, "%.100q is no host:port", address)
	}
	if !s.followers.Add(address, s.leads.Now()) {
		return errs.New(errs.UnavailableInCurrentStatus, op, "as many masters follow this one as may")
	}
	return nil
}

// learn is Attach at a master that does not lead: it says what it knows of each ledger. Called with the mounts locked.
func (s *Service) learn(ctx context.Context, client model.ClientID, ledgers []model.LedgerState) model.Attached {
	for _, m := range s.mirrors {
		if m.client == client && !slices.ContainsFunc(ledgers, func(l model.LedgerState) bool { return l.Segment.ID == m.seg.ID }) {
			s.dropMirror(ctx, m)
		}
	}
	out := model.Attached{Lease: s.cfg.LeaseTTL, Write: s.cfg.PutReleaseTimeout, Clock: s.shown()}
	for i := range ledgers {
		l := &ledgers[i]
		r := &report{client: client, seg: l.Segment, epoch: ledger.Epoch(l.Fence), lease: l.Lease, puts: l.Puts, wiped: l.Wiped, keeper: l.Keeper, largest: l.Largest, heard: s.clock.Now(), grants: l.Grants}
		if r.mirror = s.continued(ctx, client, l); r.mirror != nil {
			r.mirror.seg.SetKey(l.Grants)
		}
		s.forgetReport(l.Segment.ID)
		s.reports[l.Segment.ID] = r
		out.Segments = append(out.Segments, r.grant())
	}
	return out
}

// continued returns the mirror that a ledger continues, nil if there is none. Called with the mounts locked.
func (s *Service) continued(ctx context.Context, client model.ClientID, l *model.LedgerState) *mirror {
	m := s.mirrors[l.Segment.ID]
	if m == nil {
		return nil
	}
	if m.promoted || m.client != client || m.seg.Segment != l.Segment || m.fence != ledger.Epoch(l.Fence) || m.seq > ledger.Seq(l.Seq) || l.Wiped {
		s.dropMirror(ctx, m)
		return nil
	}
	m.lease = max(m.lease, l.Lease)
	return m
}
