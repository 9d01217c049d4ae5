// Package session is the registration of one process with the master. A session has the client's
// ID, pings the master, collects how other nodes respond to transfers, and knows whether the master
// answers. While the master does not, every call fails at once; until that is known, a call fails
// within Config.MasterDownTimeout.
package session

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// Session is the registration of a process, which its client and its node share. It pings while a
// member is attached, from the first put on, while there is something to report, and while the master
// does not answer.
// Safe for concurrent use.
type Session struct {
	cfg     Config
	id      model.ClientID
	master  store.Master
	log     *slog.Logger
	peers   *peerBook
	metrics *metrics

	outage    atomic.Pointer[outage] // nil while the master answers; changes under mu
	fails     atomic.Int32           // consecutive calls and pings without an answer
	roundTrip atomic.Int64           // the shortest of a ping or probe, in nanoseconds; 0 before the first
	lastPing  atomic.Int64           // when the last ping was sent, in nanoseconds since born
	hasty     atomic.Int64           // until when pings that fail are repeated soon, in nanoseconds since born
	since     atomic.Int64           // see MasterSince, in nanoseconds since born; 0 for never
	born      time.Time
	// begun and ended count pings, joins counts the completed attempts of members to join.
	begun, ended, joins atomic.Uint64
	outside             atomic.Int32 // members that have not joined
	answered            atomic.Bool  // the master has answered before
	settling            atomic.Bool  // a call is waiting for the master on behalf of such a member
	writer              atomic.Bool  // the process puts
	writes              writes
	puts                puts

	urgent chan struct{} // capacity 1: ping now
	wake   chan struct{} // capacity 1: check again what is due

	mu      sync.Mutex
	pingErr error                 // of the last ping
	changed chan struct{}         // closed and replaced when one of the counts above changes
	waits   sync.Pool             // of *waiting
	pending map[*waiting]struct{} // calls that wait for the master
	probing bool
	members []Member
	started bool
	closed  bool
	stop    context.CancelFunc
	ctx     context.Context
	tasks   sync.WaitGroup
}

// writes is the right of a process to write into memory that the master gave to its puts. A master
// that does not hear from the process gives the memory to others once the promised time is over.
// So the process must not write then, whatever else it may still reach. Until the master knows the
// process there is no promise, and the right does not end.
type writes struct {
	promised atomic.Bool
	end      atomic.Int64  // in nanoseconds since born, of boottime.Time
	lapses   atomic.Uint64 // how often the right has ended; written before end
}

// Member is a node that a session keeps alive. Its methods must not block.
type Member interface {
	// Pinged takes the answer to a ping, or its error. ClientNeedRemount means that the master does not know the
	// client, so that the member has to mount everything again.
	Pinged(reply model.PingReply, err error)
	// Joined reports whether the member has joined the pool once.
	Joined() bool
}

// New makes a session. It acquires nothing before its first use.
func New(cfg Config, deps Deps) (*Session, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if deps.ID.IsZero() || deps.Master == nil || deps.Log == nil {
		return nil, errs.New(errs.InvalidParams, "store session", "an ID, a master and a logger are needed")
	}
	m, err := newMetrics(deps.Labelled())
	if err != nil {
		return nil, errs.Wrap(errs.Internal, "store session: register metrics", err)
	}
	s := &Session{
		cfg: cfg, id: deps.ID, master: deps.Master, log: deps.Log, peers: newPeerBook(maxPeersKnown), metrics: m,
		born: time.Now(), urgent: make(chan struct{}, 1), wake: make(chan struct{}, 1), pending: map[*waiting]struct{}{},
		changed: make(chan struct{}),
	}
	s.ctx, s.stop = context.WithCancel(context.Background())
	if m, ok := deps.Master.(store.Mover); ok {
		m.OnMove(s.moved)
	}
	return s, nil
}

// ID is the name of this process at the master.
func (s *Session) ID() model.ClientID { return s.id }

// Close ends the pings; unreported observations are lost. The clients and nodes of the session must
// be closed before. Repeatable.
func (s *Session) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.stop()
	s.tasks.Wait()
}

// Attach keeps a member alive until Detach.
func (s *Session) Attach(m Member) {
	s.mu.Lock()
	s.members = append(s.members, m)
	s.countOutside()
	s.mu.Unlock()
	s.pingNow()
}

// Detach ends Attach.
func (s *Session) Detach(m Member) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.Index(s.members, m); i >= 0 {
		s.members = slices.Delete(slices.Clone(s.members), i, i+1)
		s.countOutside()
	}
}

// TriedToJoin records the end of a member's attempt to join.
func (s *Session) TriedToJoin() {
	s.mu.Lock()
	s.countOutside()
	s.mu.Unlock()
	s.joins.Add(1)
	s.notify()
}

// countOutside counts the members that have not joined. The caller holds mu.
func (s *Session) countOutside() {
	n := int32(0)
	for _, m := range s.members {
		if !m.Joined() {
			n++
		}
	}
	s.outside.Store(n)
}

// nudge makes the loop check what is due. The first call starts the loop.
func (s *Session) nudge() {
	s.mu.Lock()
	if !s.started && !s.closed {
		s.started = true
		s.tasks.Go(s.run)
	}
	s.mu.Unlock()
	signal(s.wake)
}

// pingNow makes the loop ping at once.
func (s *Session) pingNow() {
	signal(s.urgent)
	s.nudge()
}

// pingSoon is pingNow unless the last ping was sent less than gap ago.
func (s *Session) pingSoon(gap time.Duration) {
	if time.Since(s.born)-time.Duration(s.lastPing.Load()) >= gap {
		s.pingNow()
	}
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
