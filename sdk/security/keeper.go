package security

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// Mode is how far a process protects its doors.
type Mode string

// The modes.
const (
	ModeOff  Mode = "off"  // plaintext
	ModeTLS  Mode = "tls"  // servers show certificates, clients need none
	ModeMTLS Mode = "mtls" // both show certificates, and clients' carry an identity
)

// Settings are what a Keeper is made of.
type Settings struct {
	Mode  Mode
	Files Files
	// Allow gives identities to certificates that carry none: ROLE[/NAME]=PATTERN, see CheckAllow.
	Allow []string
	// Warning is how long before the end of the certificate the log warns. Default 72 h, or a tenth of
	// its time where that is less.
	Warning time.Duration
	// Every is how often Run looks at the files. Default 10 s.
	Every time.Duration
	// Log gets renewals and trouble; nil for slog.Default.
	Log *slog.Logger
	// Report, where set, gets each trouble with the files once, and "" when it is over.
	Report func(trouble string)
	// Clock is nil for time.Now.
	Clock func() time.Time
}

// Keeper holds the certificates of a process and reads them again when the files change. Safe for
// concurrent use. Methods of a nil Keeper are those of one with ModeOff.
type Keeper struct {
	set   Settings
	allow []mapping
	now   atomic.Pointer[Set]
	// reloads counts how often the files were taken up anew.
	reloads atomic.Uint64

	mu   sync.Mutex // of Look
	said string     // the trouble that was last reported

	termsMu sync.Mutex
	terms   map[bounded]struct{} // the connections that exist
}

// bounded is a connection whose life depends on the files.
type bounded interface {
	revise(old, present *Set, now time.Time)
}

// Open reads the files. With ModeOff it returns nil, and no error.
func Open(s Settings) (*Keeper, error) {
	switch s.Mode {
	case ModeOff, "":
		return nil, nil
	case ModeTLS, ModeMTLS:
	default:
		return nil, s.Files.fail("the modes are off, tls and mtls", "mode is %q", s.Mode)
	}
	if s.Every <= 0 {
		s.Every = 10 * time.Second
	}
	if s.Log == nil {
		s.Log = slog.Default()
	}
	if s.Report == nil {
		s.Report = func(string) {}
	}
	if s.Clock == nil {
		s.Clock = time.Now
	}
	allow, err := parseAllow(s.Allow)
	if err != nil {
		return nil, s.Files.fail("", "allow: %w", err)
	}
	k := &Keeper{set: s, allow: allow, terms: map[bounded]struct{}{}}
	set, err := k.load()
	if err != nil {
		return nil, err
	}
	k.now.Store(set)
	k.tell(set, nil, s.Clock())
	return k, nil
}

// load reads the files of the mode.
func (k *Keeper) load() (*Set, error) {
	var uses []x509.ExtKeyUsage
	switch {
	case k.set.Mode == ModeMTLS:
		uses = []x509.ExtKeyUsage{AsServer, AsClient}
	case k.set.Files.Cert != "":
		uses = []x509.ExtKeyUsage{AsServer}
	}
	return k.set.Files.Load(k.set.Clock(), uses...)
}

// Mode returns the mode.
func (k *Keeper) Mode() Mode {
	if k == nil {
		return ModeOff
	}
	return k.set.Mode
}

// On reports whether the mode is not ModeOff.
func (k *Keeper) On() bool { return k != nil }

// Present returns what the files hold at present. k is not nil.
func (k *Keeper) Present() *Set { return k.now.Load() }

// Reloads returns how often changed files were taken up.
func (k *Keeper) Reloads() uint64 {
	if k == nil {
		return 0
	}
	return k.reloads.Load()
}

// CanServe reports why this process cannot be a TLS server, nil if it can.
func (k *Keeper) CanServe() error {
	if k == nil || k.Present().Leaf != nil {
		return nil
	}
	return k.set.Files.fail(k.set.Files.hint(), "a process that peers connect to needs a certificate and its key")
}

// Run looks at the files until ctx ends.
func (k *Keeper) Run(ctx context.Context) {
	if k == nil {
		return
	}
	t := time.NewTicker(k.set.Every)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			k.Look()
		case <-ctx.Done():
			return
		}
	}
}

// Look reads the files again and reports whether it took up changed ones. Files that cannot be used,
// as in the middle of being replaced, leave everything as it was.
func (k *Keeper) Look() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	old := k.now.Load()
	digest, err := k.set.Files.Sum()
	changed := err == nil && digest != old.Digest
	if changed {
		var set *Set
		if set, err = k.load(); err == nil {
			k.now.Store(set)
			k.reloads.Add(1)
			k.set.Log.Info("certificates were replaced", set.attrs(k.set.Files)...)
			k.reviseAll(old, set)
			old = set
		}
	}
	k.tell(old, err, k.set.Clock())
	return changed && err == nil
}

// reviseAll applies changed files to the connections.
func (k *Keeper) reviseAll(old, present *Set) {
	k.termsMu.Lock()
	all := make([]bounded, 0, len(k.terms))
	for t := range k.terms {
		all = append(all, t)
	}
	k.termsMu.Unlock()
	now := k.set.Clock()
	for _, t := range all {
		t.revise(old, present, now)
	}
}

func (s *Set) attrs(f Files) []any {
	if s.Leaf == nil {
		return []any{"ca", f.CA}
	}
	return []any{"cert", f.Cert, "ends", s.Leaf.NotAfter, "names", NamesOf(s.Leaf)}
}

// tell reports trouble with the certificates, once for each change.
func (k *Keeper) tell(s *Set, err error, now time.Time) {
	say := ""
	switch {
	case s.Leaf != nil && !now.Before(s.Leaf.NotAfter):
		say = "the certificate of this process has ended; peers refuse it"
	case err != nil:
		say = "the certificate files cannot be used; going on with what was read before"
	case s.Leaf != nil && s.Leaf.NotAfter.Sub(now) < k.warning(s.Leaf):
		say = "the certificate of this process ends soon"
	}
	if say == k.said {
		return
	}
	k.said = say
	k.set.Report(say)
	if say == "" {
		k.set.Log.Info("the certificates are good again", s.attrs(k.set.Files)...)
		return
	}
	k.set.Log.Warn(say, append(s.attrs(k.set.Files), "error", err,
		"hint", "'mooncake certs renew "+k.set.Files.Cert+"' makes a new one; it is taken up without a restart")...)
}

func (k *Keeper) warning(c *x509.Certificate) time.Duration {
	if k.set.Warning > 0 {
		return k.set.Warning
	}
	return min(72*time.Hour, c.NotAfter.Sub(c.NotBefore)/10)
}

// Identity returns who this process is. Its certificate may carry no identity: ErrNoIdentity.
func (k *Keeper) Identity() (Identity, error) {
	if k == nil || k.Present().Leaf == nil {
		return Identity{}, ErrNoIdentity
	}
	return k.identify(k.Present(), k.Present().Leaf)
}

// identify returns the identity of a certificate whose chain was verified. An identity of another
// trust domain than this process's is none.
func (k *Keeper) identify(s *Set, c *x509.Certificate) (Identity, error) {
	id, err := identityIn(c)
	if errors.Is(err, ErrNoIdentity) {
		return mapped(c, k.allow)
	}
	if err != nil {
		return Identity{}, err
	}
	if s.Leaf != nil {
		if own, err := identityIn(s.Leaf); err == nil && own.Trust != id.Trust {
			return Identity{}, fmt.Errorf("%s is of another trust domain than this process, %s", id.URI(), own.Trust)
		}
	}
	return id, nil
}
