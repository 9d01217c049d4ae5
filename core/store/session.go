package store

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// SessionConfig of a Session. DefaultSessionConfig has the defaults.
type SessionConfig struct {
	// PingInterval is the time between signs of life; it must be well below the master's
	// client_ttl (10 s). While the master does not answer it grows up to MaxPingInterval.
	// Defaults 1 s and 3 s.
	PingInterval    time.Duration
	MaxPingInterval time.Duration
	// MasterDownTimeout bounds a call to a master that does not answer, neither to the call
	// nor to the question whether it is there. A master that answers may take as long as the
	// call allows. A master that is far gets 25 round trips, 5 s at most, where that is longer.
	// Default 1 s.
	MasterDownTimeout time.Duration
	// Address is the master's, for log lines. May be empty.
	Address string
}

// DefaultSessionConfig returns the defaults.
func DefaultSessionConfig() SessionConfig {
	return SessionConfig{PingInterval: time.Second, MaxPingInterval: 3 * time.Second, MasterDownTimeout: time.Second}
}

// Validate reports the first setting that cannot work.
func (c SessionConfig) Validate() error {
	bad := func(name string, got time.Duration, want string) error {
		return errs.New(errs.InvalidParams, "store session: configuration", "%s is %v, must be %s", name, got, want)
	}
	switch {
	case c.PingInterval <= 0 || c.MaxPingInterval < c.PingInterval:
		return bad("ping interval", c.PingInterval, "above 0 and at most its maximum")
	case c.MasterDownTimeout <= 0:
		return bad("master down timeout", c.MasterDownTimeout, "above 0")
	}
	return nil
}

// Session is what one process has in common at the master: its ID, its signs of life, what
// it saw of other nodes, and whether the master answers. A Client and a Node of one process
// share it. It pings while a node is attached, while there is something to report, and
// while the master does not answer. Safe for concurrent use.
type Session struct {
	cfg     SessionConfig
	id      model.ClientID
	master  Master
	log     *slog.Logger
	peers   *peerBook
	metrics *sessionMetrics

	// outage is what is known of the master's absence, nil while it answers.
	outage   atomic.Pointer[outage]
	fails    atomic.Int32 // calls and pings in a row that got no answer
	distance distance
	lastPing atomic.Int64 // when the last ping was sent, in nanoseconds since born
	born     time.Time
	// begun and ended count pings, joins the attempts of nodes to join that have ended.
	begun, ended, joins atomic.Uint64
	outside             atomic.Int32 // members that have not joined
	met                 atomic.Bool  // the master has answered before
	settling            atomic.Bool  // a call asks for the master on behalf of such a member

	urgent chan struct{} // capacity 1: ping now
	wake   chan struct{} // capacity 1: look again what there is to do

	mu      sync.Mutex
	down    bool
	pingErr error                 // of the last ping
	changed chan struct{}         // closed, and made anew, when one of the counts above changes
	waits   sync.Pool             // of *waiting
	pending map[*waiting]struct{} // calls that wait for the master
	probing bool
	members []member
	started bool
	closed  bool
	stop    context.CancelFunc
	ctx     context.Context
	tasks   sync.WaitGroup
}

// member is what a session keeps alive: a node. Its methods must not block.
type member interface {
	// pinged tells how the last ping went; forgotten means that the master does not know
	// the client and everything has to be mounted again.
	pinged(err error, forgotten bool)
	// inside reports whether the member has joined, which it does not undo.
	inside() bool
}

// NewSession makes a session. It acquires nothing until there is something to do. Only ID,
// Master, Log and Metrics of deps are used.
func NewSession(cfg SessionConfig, deps Deps) (*Session, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if deps.ID.IsZero() || deps.Master == nil || deps.Log == nil {
		return nil, errs.New(errs.InvalidParams, "store session", "an ID, a master and a logger are needed")
	}
	m, err := newSessionMetrics(deps.registerer())
	if err != nil {
		return nil, errs.Wrap(errs.Internal, "store session: register metrics", err)
	}
	s := &Session{
		cfg: cfg, id: deps.ID, master: deps.Master, log: deps.Log, peers: newPeerBook(maxPeersKnown), metrics: m,
		born: time.Now(), urgent: make(chan struct{}, 1), wake: make(chan struct{}, 1), pending: map[*waiting]struct{}{},
		changed: make(chan struct{}),
	}
	s.ctx, s.stop = context.WithCancel(context.Background())
	return s, nil
}

// ID is the name of this process at the master.
func (s *Session) ID() model.ClientID { return s.id }

// Close ends the pings; what was not reported is lost. Clients and nodes that use the
// session are closed before. Repeatable.
func (s *Session) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.stop()
	s.tasks.Wait()
}

// attach has a member kept alive until detach.
func (s *Session) attach(m member) {
	s.mu.Lock()
	s.members = append(s.members, m)
	s.count()
	s.mu.Unlock()
	s.hurry()
}

func (s *Session) detach(m member) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, x := range s.members {
		if x == m {
			s.members = append(s.members[:i:i], s.members[i+1:]...)
			s.count()
			return
		}
	}
}

// nudge makes the loop look whether there is something to do, and starts it the first time.
func (s *Session) nudge() {
	s.mu.Lock()
	if !s.started && !s.closed {
		s.started = true
		s.tasks.Go(s.run)
	}
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// hurry makes the loop ping now.
func (s *Session) hurry() {
	select {
	case s.urgent <- struct{}{}:
	default:
	}
	s.nudge()
}
