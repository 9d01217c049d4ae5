package master

import (
	"sync/atomic"

	"github.com/mooncake-go/mooncake/core/ledger"
	"github.com/mooncake-go/mooncake/core/master/journal"
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

// Lead makes a Service that is one of several masters serve, for a leadership with a number. It has started. After
// Suspend it goes on with what it knows, which holds as long as no other master has led meanwhile.
func (s *Service) Lead(t Term, view uint64) {
	s.mounting <- struct{}{}
	if s.leads.term.Load() == nil { // A later term finds the ledgers as this Service has left them.
		s.epoch = ledger.Epoch(t.Epoch())
		s.table.NumberFrom(firstPut(s.epoch))
	}
	<-s.mounting
	s.leads.view.Store(view)
	s.leads.term.Store(&term{t})
	s.serving.Store(true)
}

// Suspend ends serving until Lead. No deadline passes meanwhile.
func (s *Service) Suspend() { s.serving.Store(false) }

// refuse is the error of a call while the master does not serve.
func (s *Service) refuse(op string) error {
	switch {
	case !s.serving.Load():
		return errs.New(errs.UnavailableInCurrentStatus, op, "the master is starting or stopping, or another one leads")
	case !s.leads.valid():
		return errs.WithHint(errs.New(errs.UnavailableInCurrentStatus, op, "the leadership of this master is not renewed, so another one may lead"),
			"clients find the leader by themselves; check that the masters reach the service that elects them")
	}
	return nil
}
