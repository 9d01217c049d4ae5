package master

import (
	"context"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mooncake-go/mooncake/core/ledger"
	"github.com/mooncake-go/mooncake/core/master/journal"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// Term is a leadership among several masters. Its methods are safe for concurrent use.
type Term interface {
	// Epoch is higher than that of all leaderships before.
	Epoch() uint64
	// Until is the time before which no other master can lead. It moves on as the leadership is renewed.
	Until() journal.Instant
}

// leads says whether this master leads. A master without rivals always does.
type leads struct {
	now     func() journal.Instant
	standby bool                 // there are other masters
	term    atomic.Pointer[term] // nil before the first leadership
	view    atomic.Uint64
}

type term struct{ Term }

// valid reports whether no other master can lead.
func (l *leads) valid() bool {
	if !l.standby {
		return true
	}
	t := l.term.Load()
	return t != nil && l.now() < t.Until()
}

// phase is what a Service does.
type phase int32

const (
	idle       phase = iota
	following        // it takes Attach and Report, and learns what the leader writes
	recovering       // it leads, and waits for the nodes that it has followed
	serving
)

func (s *Service) phase() phase        { return phase(s.state.Load()) }
func (s *Service) enter(p phase) phase { return phase(s.state.Swap(int32(p))) }

// recoverTick is how often a recovering master looks whether all nodes have attached.
const recoverTick = 2 * time.Millisecond

// Lead makes a Service that is one of several masters serve, for a leadership with a number. It has started. After
// Suspend it goes on with what it knows, which holds as long as no other master has led meanwhile. A Service that has
// followed another master serves after Recover only.
func (s *Service) Lead(t Term, view uint64) {
	s.mounting <- struct{}{}
	defer s.unlockMounts()
	if s.leads.term.Load() == nil { // A later term finds the ledgers as this Service has left them.
		s.epoch = ledger.Epoch(t.Epoch())
		s.table.NumberFrom(firstPut(s.epoch))
	}
	s.leads.view.Store(view)
	s.leads.term.Store(&term{t})
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
		m.settle(ctx, until)
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

// missing is how many followed segments have not attached whose nodes were heard of late.
func (s *Service) missing() (n int) {
	s.mounting <- struct{}{}
	defer s.unlockMounts()
	now := s.leads.now()
	for _, m := range s.mirrors {
		if !m.promoted && time.Duration(now-m.heard) < silence {
			n++
		}
	}
	return n
}

const (
	// followerTTL is how long a follower is told to the nodes after it called Follow.
	followerTTL = 5 * time.Second
	// maxFollowers bounds them, and maxAddress the length of an address.
	maxFollowers, maxAddress = 16, 512
)

// followers are the masters that follow this one, with when each was heard of.
type followers struct {
	mu    sync.Mutex
	heard map[string]journal.Instant
}

// Follow makes the address of a follower known to the nodes.
func (s *Service) Follow(ctx context.Context, address string) error {
	const op = "master: follow"
	if err := s.admit(ctx, op, 0); err != nil {
		return err
	}
	if _, _, err := net.SplitHostPort(address); err != nil || len(address) > maxAddress {
		return errs.New(errs.InvalidParams, op, "%.100q is no host:port", address)
	}
	f, now := &s.followers, s.leads.now()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.expire(now)
	if _, known := f.heard[address]; !known && len(f.heard) >= maxFollowers {
		return errs.New(errs.InvalidParams, op, "%d masters follow this one already, the most there can be", maxFollowers)
	}
	f.heard[address] = now
	return nil
}

func (f *followers) expire(now journal.Instant) {
	for a, at := range f.heard {
		if time.Duration(now-at) > followerTTL {
			delete(f.heard, a)
		}
	}
}

// list returns the addresses, sorted.
func (f *followers) list(now journal.Instant) []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.expire(now)
	var out []string
	for a := range f.heard {
		out = append(out, a)
	}
	slices.Sort(out)
	return out
}

// learn is Attach at a master that does not lead: it says what it knows of each ledger. Called with the mounts locked.
func (s *Service) learn(ctx context.Context, client model.ClientID, ledgers []model.LedgerState) model.Attached {
	for _, m := range s.mirrors {
		if m.client == client && !slices.ContainsFunc(ledgers, func(l model.LedgerState) bool { return l.Segment.ID == m.seg.ID }) {
			s.dropMirror(ctx, m)
		}
	}
	var out model.Attached
	for i := range ledgers {
		l := &ledgers[i]
		r := &report{client: client, seg: l.Segment, epoch: ledger.Epoch(l.Fence), lease: l.Lease, wiped: l.Wiped, heard: s.clock.Now()}
		r.mirror = s.continued(ctx, client, l)
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

// grant is the answer to the attach that a report follows.
func (r *report) grant() model.LedgerGrant {
	g := model.LedgerGrant{Epoch: uint64(r.epoch)}
	if r.mirror != nil {
		g.Tail, g.Since = true, uint64(r.mirror.seq)
	}
	return g
}
