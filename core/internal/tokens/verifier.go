package tokens

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"golang.org/x/sync/singleflight"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/security"
)

const (
	// skew is how far the clock of the issuer may be off.
	skew = time.Minute
	// maxCached bounds the tokens that are remembered.
	maxCached = 1024
	// maxSubject bounds a subject, in bytes, as OpenID Connect does.
	maxSubject = 255
)

// Refusal is why a token was refused.
type Refusal struct {
	// Reason is one of a few words, for counts: missing, malformed, algorithm, key, signature, issuer, audience, expired,
	// early, subject, unmapped, twice, unavailable.
	Reason string
	text   string
}

// Error implements error. It has no part of a token whose signature was not verified.
func (r *Refusal) Error() string { return r.text }

// Refuse returns a Refusal.
func Refuse(reason, format string, args ...any) *Refusal {
	return &Refusal{Reason: reason, text: fmt.Sprintf(format, args...)}
}

// Bearer is what a token proves.
type Bearer struct {
	Identity security.Identity
	// Until is when the token ends, with what clocks may differ by.
	Until time.Time
}

// Verifier verifies tokens. Safe for concurrent use.
type Verifier struct {
	set      Settings
	subjects []subject
	file     string
	remote   *fetcher // nil with file
	keys     atomic.Pointer[keySet]
	flight   singleflight.Group
	ctx      context.Context // of fetches; it ends with Run
	cancel   context.CancelFunc

	mu    sync.Mutex
	tried time.Time // the last fetch
	said  bool      // trouble with the keys was logged
	cache map[[sha256.Size]byte]cached
}

// cached is a token that was verified, with the keys of then.
type cached struct {
	Bearer
	keys *keySet
}

// Open returns a Verifier, nil for settings that take no token. Keys in a file are read at once, others by Run.
// InvalidParams, FileOpenFail.
func Open(s Settings) (*Verifier, error) {
	if !s.Enabled() {
		return nil, nil
	}
	if s.LookEvery <= 0 {
		s.LookEvery = 10 * time.Second
	}
	if s.FetchEvery <= 0 {
		s.FetchEvery = 5 * time.Minute
	}
	if s.Log == nil {
		s.Log = slog.New(slog.DiscardHandler)
	}
	if s.Clock == nil {
		s.Clock = time.Now
	}
	v := &Verifier{set: s, cache: map[[sha256.Size]byte]cached{}}
	v.ctx, v.cancel = context.WithCancel(context.Background())
	var err error
	if v.subjects, err = parseSubjects(s.Subjects); err != nil {
		return nil, errs.Wrap(errs.InvalidParams, "security.tokens", err)
	}
	file, address, err := placeOf(s.Keys, s.Issuer)
	if err == nil && (s.Issuer == "" || s.Audience == "") {
		err = errors.New("tokens need an issuer and an audience")
	}
	if err != nil {
		return nil, errs.Wrap(errs.InvalidParams, "security.token_keys", err)
	}
	if v.file = file; file == "" {
		v.remote, err = newFetcher(address, s)
		return v, err
	}
	text, err := readKeys(file)
	if err == nil {
		err = v.take(text)
	}
	if err != nil {
		return nil, errs.WithHint(errs.New(errs.FileOpenFail, "security.token_keys", "the keys of the issuer %s cannot be read: %w", s.Issuer, err),
			"%s must be a JWKS with the public keys of the issuer", file)
	}
	return v, nil
}

// take takes up keys.
func (v *Verifier) take(text []byte) error {
	set, err := parseKeys(text)
	if err != nil {
		return err
	}
	old := v.keys.Load()
	if old != nil && old.digest == set.digest {
		return nil
	}
	v.keys.Store(set) // What was remembered with the old keys counts no more.
	v.set.Log.Info("the keys of the issuer of tokens were taken up", "issuer", v.set.Issuer, "keys", len(set.byID))
	return nil
}

// Run keeps the keys up to date until ctx ends. Call it once. A nil Verifier returns at once.
func (v *Verifier) Run(ctx context.Context) {
	if v == nil {
		return
	}
	defer v.cancel()
	every := v.set.FetchEvery
	if v.file != "" {
		every = v.set.LookEvery
	}
	for first := true; ; first = false {
		if !first || v.file == "" {
			v.look(ctx)
		}
		wait := every
		if v.keys.Load() == nil {
			wait = min(every, fetchPause)
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return
		}
	}
}

// look reads or fetches the keys again.
func (v *Verifier) look(ctx context.Context) {
	if v.file == "" {
		v.refresh(ctx, 0)
		return
	}
	text, err := readKeys(v.file)
	if err == nil {
		err = v.take(text)
	}
	v.tell(err)
}

// refresh fetches the keys, or waits for a fetch in flight, unless one began less than pause ago.
func (v *Verifier) refresh(ctx context.Context, pause time.Duration) {
	done := v.flight.DoChan("", func() (any, error) {
		now := v.set.Clock()
		v.mu.Lock()
		due := v.tried.IsZero() || now.Sub(v.tried) >= pause
		if due {
			v.tried = now
		}
		v.mu.Unlock()
		if !due {
			return nil, nil
		}
		text, err := v.remote.fetch(v.ctx)
		if err == nil {
			err = v.take(text)
		}
		if v.ctx.Err() == nil {
			v.tell(err)
		}
		return nil, err
	})
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// tell logs trouble with the keys, once until it is over.
func (v *Verifier) tell(err error) {
	v.mu.Lock()
	said := v.said
	v.said = err != nil
	v.mu.Unlock()
	switch {
	case err != nil && !said:
		v.set.Log.Warn("the keys of the issuer of tokens cannot be had; going on with those from before", "issuer", v.set.Issuer, "have", v.keys.Load() != nil,
			"error", err, "hint", "see security.token_keys, token_keys_ca and token_keys_token")
	case err == nil && said:
		v.set.Log.Info("the keys of the issuer of tokens can be had again", "issuer", v.set.Issuer)
	}
}

// Verify returns what a token proves. It waits for a fetch of the keys where the token names one that is not known. An error
// is a *Refusal.
func (v *Verifier) Verify(ctx context.Context, token string) (Bearer, error) {
	if len(token) > MaxToken {
		return Bearer{}, Refuse("malformed", "the token has %d bytes, at most %d are taken", len(token), MaxToken)
	}
	sum, now := sha256.Sum256([]byte(token)), v.set.Clock()
	v.mu.Lock()
	hit, ok := v.cache[sum]
	v.mu.Unlock()
	if ok && hit.keys == v.keys.Load() && now.Before(hit.Until) {
		return hit.Bearer, nil
	}
	claims, keys, err := v.open(ctx, token)
	if err != nil {
		return Bearer{}, err
	}
	b, err := v.judge(claims, now)
	if err != nil {
		return Bearer{}, err
	}
	v.remember(sum, cached{b, keys}, now)
	return b, nil
}

// remember keeps a verified token, in place of another one where there are many.
func (v *Verifier) remember(sum [sha256.Size]byte, c cached, now time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.cache) >= maxCached {
		for k, old := range v.cache {
			if !now.Before(old.Until) {
				delete(v.cache, k)
			}
		}
	}
	for k := range v.cache {
		if len(v.cache) < maxCached {
			break
		}
		delete(v.cache, k)
	}
	v.cache[sum] = c
}

// open verifies the signature of a token.
func (v *Verifier) open(ctx context.Context, token string) (*jwt.Claims, *keySet, error) {
	t, err := jwt.ParseSigned(token, allowed)
	var alg *jose.ErrUnexpectedSignatureAlgorithm
	switch {
	case errors.As(err, &alg):
		return nil, nil, Refuse("algorithm", "the token is not signed with one of %s; others, and none, are refused", strings.Join(algorithms(), ", "))
	case err != nil || len(t.Headers) != 1:
		return nil, nil, Refuse("malformed", "this is not a signed JWT of three parts")
	}
	head := t.Headers[0]
	keys := v.keys.Load()
	key, ok := keys.find(head.KeyID)
	if !ok && v.remote != nil {
		v.refresh(ctx, fetchPause)
		keys = v.keys.Load()
		key, ok = keys.find(head.KeyID)
	}
	switch {
	case keys == nil:
		return nil, nil, Refuse("unavailable", "the keys of the issuer %s are not known yet; the log of the process says why. Try again", v.set.Issuer)
	case !ok:
		return nil, nil, Refuse("key", "the token names a key (kid) that the issuer %s does not have, or none", v.set.Issuer)
	case key.Algorithm != "" && key.Algorithm != head.Algorithm:
		return nil, nil, Refuse("algorithm", "the token is signed with another algorithm than the issuer %s uses with its key", v.set.Issuer)
	}
	var claims jwt.Claims
	if err := t.Claims(key.Key, &claims); err != nil {
		return nil, nil, Refuse("signature", "the signature of the token is not by a key of the issuer %s", v.set.Issuer)
	}
	return &claims, keys, nil
}

var allowed = func() (out []jose.SignatureAlgorithm) {
	for _, a := range algorithms() {
		out = append(out, jose.SignatureAlgorithm(a))
	}
	return out
}()

// judge decides by the claims of a token whose signature is good.
func (v *Verifier) judge(c *jwt.Claims, now time.Time) (Bearer, error) {
	err := c.ValidateWithLeeway(jwt.Expected{Issuer: v.set.Issuer, AnyAudience: jwt.Audience{v.set.Audience}, Time: now}, skew)
	at := func(d *jwt.NumericDate) string { return d.Time().UTC().Format(time.RFC3339) }
	switch {
	case errors.Is(err, jwt.ErrInvalidIssuer):
		return Bearer{}, Refuse("issuer", "the token is of the issuer %.200q, expected is %q", c.Issuer, v.set.Issuer)
	case errors.Is(err, jwt.ErrInvalidAudience):
		return Bearer{}, Refuse("audience", "the token is for the audience %.200q, expected is %q", c.Audience, v.set.Audience)
	case errors.Is(err, jwt.ErrExpired):
		return Bearer{}, Refuse("expired", "the token ended at %s, and it is %s here", at(c.Expiry), now.UTC().Format(time.RFC3339))
	case errors.Is(err, jwt.ErrNotValidYet):
		return Bearer{}, Refuse("early", "the token begins at %s, and it is %s here", at(c.NotBefore), now.UTC().Format(time.RFC3339))
	case errors.Is(err, jwt.ErrIssuedInTheFuture):
		return Bearer{}, Refuse("early", "the token was issued at %s, and it is %s here", at(c.IssuedAt), now.UTC().Format(time.RFC3339))
	case err != nil:
		return Bearer{}, Refuse("malformed", "the claims of the token are not good: %.200s", err)
	case c.Expiry == nil:
		return Bearer{}, Refuse("expired", "the token has no end (exp)")
	}
	id, err := v.identify(c.Subject)
	return Bearer{Identity: id, Until: c.Expiry.Time().Add(skew)}, err
}

// identify returns the identity of a subject. Its trust domain is the issuer, so that it is never that of a certificate.
func (v *Verifier) identify(sub string) (security.Identity, error) {
	if sub == "" || len(sub) > maxSubject || strings.ContainsFunc(sub, func(r rune) bool { return r < ' ' || r > '~' }) {
		return security.Identity{}, Refuse("subject", "the token has no subject (sub) of 1 to %d printable characters", maxSubject)
	}
	for _, s := range v.subjects {
		if s.matches(sub) {
			id := s.id
			if id.Trust = v.set.Issuer; id.Name == "" {
				id.Name = sub
			}
			return id, nil
		}
	}
	return security.Identity{}, Refuse("unmapped", "no entry of security.tokens gives an identity to the subject %q", sub)
}
