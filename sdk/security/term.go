package security

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// Term bounds the life of a connection by the certificates with which it began. Towards its end the connection
// is left: it takes no new work, so that what replaces it uses the present certificates, and no call fails. At the
// end it is closed.
//
// The side that dialled leaves at 70 to 80 % of the time that the certificates have left, or as soon as its own
// certificate is replaced. The side that accepted leaves at 90 %. Both leave when the authorities change and do not
// cover the peer any more, and close the connection Settings.Every later.
//
// Safe for concurrent use. A nil *Term is that of a connection without TLS, which nothing bounds.
type Term struct {
	k       *Keeper
	own     *x509.Certificate // nil for none
	peer    tls.ConnectionState
	dialled bool
	end     func(why error)

	mu      sync.Mutex
	leaveAt time.Time
	endAt   time.Time
	why     error       // of the end
	left    atomic.Bool // written with mu held
	over    bool
	tell    []func()
	timer   *time.Timer
}

// Watch bounds the life of a connection of this Keeper whose handshake is over. began is what Present returned
// before the handshake, and dialled says that this side made the connection. end closes the connection; it is called
// once at most, without a lock, and not after Done. A nil Keeper returns nil.
func (k *Keeper) Watch(began *Set, s tls.ConnectionState, dialled bool, end func(why error)) *Term {
	if k == nil {
		return nil
	}
	t := &Term{k: k, own: began.Leaf, peer: s, dialled: dialled, end: end}
	now := k.set.Clock()
	var whose string
	t.endAt, whose = t.ends(began, now)
	if t.endAt.IsZero() { // Neither side has a certificate.
		return nil
	}
	t.why = fmt.Errorf("the certificate of %s, with which the connection began, ended at %s", whose, t.endAt.UTC().Format(time.RFC3339))
	left := t.endAt.Sub(now)
	t.leaveAt = now.Add(left / 10 * 9)
	if dialled {
		t.leaveAt = now.Add(time.Duration(float64(left) * (0.7 + rand.Float64()/10))) //nolint:gosec // It spreads the load.
	}
	k.termsMu.Lock()
	k.terms[t] = struct{}{}
	k.termsMu.Unlock()
	if present := k.Present(); present != began { // The files were replaced during the handshake.
		t.revise(began, present, now)
	}
	t.mu.Lock()
	t.arm(now)
	t.mu.Unlock()
	return t
}

// ends returns when the first of the certificates ends that the connection rests on, and whose it is.
func (t *Term) ends(set *Set, now time.Time) (at time.Time, whose string) {
	if t.own != nil {
		at, whose = t.own.NotAfter, "this process"
	}
	if len(t.peer.PeerCertificates) == 0 {
		return at, whose
	}
	last := t.peer.PeerCertificates[0].NotAfter
	if chains, err := set.chains(t.peer.PeerCertificates, t.use(), now); err == nil {
		last = time.Time{}
		for _, chain := range chains {
			if e := endOf(chain); e.After(last) {
				last = e
			}
		}
	}
	if at.IsZero() || last.Before(at) {
		at, whose = last, "the peer"
	}
	return at, whose
}

func endOf(chain []*x509.Certificate) time.Time {
	at := chain[0].NotAfter
	for _, c := range chain[1:] {
		if c.NotAfter.Before(at) {
			at = c.NotAfter
		}
	}
	return at
}

// use is what the peer's certificate is for.
func (t *Term) use() x509.ExtKeyUsage {
	if t.dialled {
		return AsServer
	}
	return AsClient
}

// Leaving reports whether the connection is to take no new work.
func (t *Term) Leaving() bool {
	if t == nil {
		return false
	}
	return t.left.Load()
}

// OnLeave has f called once when the connection is to take no new work, at once where that is so already. f must not
// block.
func (t *Term) OnLeave(f func()) {
	if t == nil {
		return
	}
	t.mu.Lock()
	left := t.left.Load()
	if !left && !t.over {
		t.tell = append(t.tell, f)
	}
	t.mu.Unlock()
	if left {
		f()
	}
}

// Done says that the connection is closed. Repeatable.
func (t *Term) Done() {
	if t == nil {
		return
	}
	t.mu.Lock()
	t.over, t.tell = true, nil
	if t.timer != nil {
		t.timer.Stop()
	}
	t.mu.Unlock()
	t.k.termsMu.Lock()
	delete(t.k.terms, t)
	t.k.termsMu.Unlock()
}

// longest is the longest wait of a timer: the clock of the machine may be set meanwhile.
const longest = time.Hour

// arm sets the timer to what happens next. The caller holds mu.
func (t *Term) arm(now time.Time) {
	next := t.endAt
	if !t.left.Load() && t.leaveAt.Before(next) {
		next = t.leaveAt
	}
	wait := min(max(next.Sub(now), 0), longest)
	switch {
	case t.over:
	case t.timer == nil:
		t.timer = time.AfterFunc(wait, t.due)
	default:
		t.timer.Reset(wait)
	}
}

// due does what the time demands.
func (t *Term) due() {
	now := t.k.set.Clock()
	t.mu.Lock()
	if t.over {
		t.mu.Unlock()
		return
	}
	ended := !now.Before(t.endAt)
	var tell []func()
	if !t.left.Load() && (ended || !now.Before(t.leaveAt)) {
		t.left.Store(true)
		tell, t.tell = t.tell, nil
	}
	if !ended {
		t.arm(now)
	}
	why := t.why
	t.mu.Unlock()
	for _, f := range tell {
		f()
	}
	if ended {
		t.Done()
		t.end(why)
	}
}

// revise applies changed files.
func (t *Term) revise(old, present *Set, now time.Time) {
	var refused error
	if !old.Roots.Equal(present.Roots) && len(t.peer.PeerCertificates) > 0 {
		if _, err := t.k.peer(present, t.peer, t.use()); err != nil && !errors.Is(err, ErrNoIdentity) {
			refused = fmt.Errorf("the authorities of security.ca were replaced, and those of now do not cover the peer: %w", err)
		}
	}
	renewed := t.dialled && present.Leaf != nil && (t.own == nil || !present.Leaf.Equal(t.own))
	if refused == nil && !renewed {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if now.Before(t.leaveAt) {
		t.leaveAt = now
	}
	if by := now.Add(t.k.set.Every); refused != nil && by.Before(t.endAt) {
		t.endAt, t.why = by, refused
	}
	t.arm(now)
}
