package tokens_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/internal/testkit/logbuf"
	"github.com/mooncake-go/mooncake/core/internal/tokens"
	"github.com/mooncake-go/mooncake/internal/issuer"
	"github.com/mooncake-go/mooncake/sdk/security"
)

const sub = "system:serviceaccount:monitoring:prometheus"

// clock is one that a test moves.
type clock struct {
	mu sync.Mutex
	by time.Duration
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Add(c.by)
}

func (c *clock) move(d time.Duration) {
	c.mu.Lock()
	c.by += d
	c.mu.Unlock()
}

// world is a verifier and its issuer.
type world struct {
	*tokens.Verifier
	issuer *issuer.Issuer
	key    issuer.Key
	clock  *clock
	log    *logbuf.Buffer
}

// settings takes Prometheus, one tenant's jobs, and what begins with job: by its own name.
func settings(i *issuer.Issuer) tokens.Settings {
	return tokens.Settings{
		Subjects: []string{"reader/prometheus=" + sub, "operator/team/jobs=team:*", "client=job:*"},
		Issuer:   i.URL, Audience: issuer.Audience, CAFile: i.CA,
	}
}

func newWorld(t *testing.T, change ...func(*tokens.Settings)) *world {
	t.Helper()
	w := &world{issuer: issuer.New(t), key: issuer.NewKey(t, "one"), clock: &clock{}, log: &logbuf.Buffer{}}
	w.issuer.Publish(w.key)
	s := settings(w.issuer)
	s.Clock, s.Log = w.clock.now, slog.New(slog.NewTextHandler(w.log, nil))
	for _, f := range change {
		f(&s)
	}
	v, err := tokens.Open(s)
	require.NoError(t, err)
	w.Verifier = v
	return w
}

func (w *world) token(t *testing.T, life time.Duration, change ...func(*jwt.Claims)) string {
	t.Helper()
	c := w.issuer.Claims(sub, life)
	for _, f := range change {
		f(&c)
	}
	return w.key.Sign(t, c)
}

// refused checks that a token is refused for a reason, with a text that has no part of it.
func (w *world) refused(t *testing.T, reason, token string) {
	t.Helper()
	b, err := w.Verify(t.Context(), token)
	var r *tokens.Refusal
	require.ErrorAs(t, err, &r)
	require.Equal(t, reason, r.Reason, "%v", err)
	require.Zero(t, b.Identity)
	if len(token) > 20 {
		require.NotContains(t, err.Error(), token[len(token)-20:])
	}
}

func TestATokenHasTheIdentityOfItsSubject(t *testing.T) {
	w := newWorld(t)
	for subject, want := range map[string]string{sub: "reader/prometheus", "team:a": "operator/team/jobs", "team:": "operator/team/jobs", "job:7": "client/job:7"} {
		c := w.issuer.Claims(subject, time.Hour)
		c.Audience = jwt.Audience{"other", issuer.Audience}
		for range 2 { // The second time from the cache.
			b, err := w.Verify(t.Context(), w.key.Sign(t, c))
			require.NoError(t, err)
			assert.Equal(t, want, b.Identity.String())
			assert.Equal(t, w.issuer.URL, b.Identity.Trust, "it is never the identity of a certificate")
			assert.Equal(t, c.Expiry.Time().Add(time.Minute), b.Until)
		}
	}
	require.EqualValues(t, 1, w.issuer.Fetches.Load(), "the keys are kept")
	require.NotContains(t, w.log.String(), "WARN")
}

func TestAlgorithms(t *testing.T) {
	weak, err := rsa.GenerateKey(rand.Reader, 1024)
	require.NoError(t, err)
	strong, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	_, edwards, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	p384, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	require.NoError(t, err)
	w := newWorld(t)
	keys := []issuer.Key{
		w.key, {ID: "rsa", Private: strong, Alg: jose.RS256}, {ID: "pss", Private: strong, Alg: jose.PS512}, {ID: "ed", Private: edwards, Alg: jose.EdDSA},
		{ID: "p384", Private: p384, Alg: jose.ES384},
	}
	w.issuer.Publish(append(keys, issuer.Key{ID: "weak", Private: weak, Alg: jose.RS256})...)
	claims := w.issuer.Claims(sub, time.Hour)
	for _, k := range keys {
		_, err := w.Verify(t.Context(), k.Sign(t, claims))
		require.NoError(t, err, k.ID)
	}
	w.refused(t, "key", issuer.Key{ID: "weak", Private: weak, Alg: jose.RS256}.Sign(t, claims))
	w.refused(t, "algorithm", issuer.Key{ID: "rsa", Private: strong, Alg: jose.PS256}.Sign(t, claims))
	w.refused(t, "algorithm", issuer.Key{ID: "rsa", Private: p384, Alg: jose.ES384}.Sign(t, claims))
}

func TestRefusals(t *testing.T) {
	w := newWorld(t)
	good := w.token(t, time.Hour)
	_, err := w.Verify(t.Context(), good)
	require.NoError(t, err)
	encode := base64.RawURLEncoding.EncodeToString
	part := strings.Split(good, ".")
	public, err := x509.MarshalPKIXPublicKey(w.key.Private.Public())
	require.NoError(t, err)
	claims := w.issuer.Claims(sub, time.Hour)
	hs := func(secret []byte) string {
		return issuer.Sign(t, jose.SigningKey{Algorithm: jose.HS256, Key: secret}, "one", claims)
	}
	other := issuer.NewKey(t, "one")
	for name, c := range map[string]struct{ reason, token string }{
		"empty":                        {"malformed", ""},
		"rubbish":                      {"malformed", "rubbish"},
		"two parts":                    {"malformed", part[0] + "." + part[1]},
		"four parts":                   {"malformed", good + "." + part[2]},
		"JSON serialization":           {"malformed", `{"payload":"` + part[1] + `","protected":"` + part[0] + `","signature":"` + part[2] + `"}`},
		"an encrypted token":           {"malformed", "a.b.c.d.e"},
		"over-long":                    {"malformed", strings.Repeat("a", tokens.MaxToken+1)},
		"alg none":                     {"algorithm", encode([]byte(`{"alg":"none","kid":"one"}`)) + "." + part[1] + "."},
		"alg None":                     {"algorithm", encode([]byte(`{"alg":"None","kid":"one"}`)) + "." + part[1] + "." + part[2]},
		"HS256, the public key":        {"algorithm", hs(public)},
		"HS256, any secret":            {"algorithm", hs([]byte(strings.Repeat("secret", 8)))},
		"a key of the token's own":     {"signature", other.Sign(t, claims)},
		"a signature of another token": {"signature", part[0] + "." + strings.Split(w.token(t, 2*time.Hour), ".")[1] + "." + part[2]},
		"no signature":                 {"signature", part[0] + "." + part[1] + "."},
		"an unknown kid":               {"key", issuer.Key{ID: "two", Private: w.key.Private, Alg: w.key.Alg}.Sign(t, claims)},
		"critical extensions":          {"signature", encode([]byte(`{"alg":"ES256","kid":"one","crit":["x"],"x":1}`)) + "." + part[1] + "." + part[2]},
		"another issuer":               {"issuer", w.token(t, time.Hour, func(c *jwt.Claims) { c.Issuer += "/" })},
		"no issuer":                    {"issuer", w.token(t, time.Hour, func(c *jwt.Claims) { c.Issuer = "" })},
		"another audience":             {"audience", w.token(t, time.Hour, func(c *jwt.Claims) { c.Audience = jwt.Audience{"https://kubernetes.default.svc", "Mooncake"} })},
		"no audience":                  {"audience", w.token(t, time.Hour, func(c *jwt.Claims) { c.Audience = nil })},
		"expired":                      {"expired", w.token(t, -2*time.Minute)},
		"no end":                       {"expired", w.token(t, time.Hour, func(c *jwt.Claims) { c.Expiry = nil })},
		"not yet valid":                {"early", w.token(t, time.Hour, func(c *jwt.Claims) { c.NotBefore = jwt.NewNumericDate(time.Now().Add(2 * time.Minute)) })},
		"of the future":                {"early", w.token(t, time.Hour, func(c *jwt.Claims) { c.IssuedAt = jwt.NewNumericDate(time.Now().Add(2 * time.Minute)) })},
		"unmapped":                     {"unmapped", w.token(t, time.Hour, func(c *jwt.Claims) { c.Subject = sub + "2" })},
		"no subject":                   {"subject", w.token(t, time.Hour, func(c *jwt.Claims) { c.Subject = "" })},
		"a line break":                 {"subject", w.token(t, time.Hour, func(c *jwt.Claims) { c.Subject = "job:\n" })},
		"long subject":                 {"subject", w.token(t, time.Hour, func(c *jwt.Claims) { c.Subject = "job:" + strings.Repeat("a", 255) })},
		"an end beyond":                {"signature", w.key.Sign(t, map[string]any{"iss": w.issuer.URL, "aud": issuer.Audience, "sub": sub, "exp": 1e300})},
		"claims of other kinds":        {"signature", w.key.Sign(t, map[string]any{"iss": 1, "aud": issuer.Audience, "sub": sub, "exp": 1})},
		"names of claims in capitals":  {"issuer", w.key.Sign(t, map[string]any{"ISS": w.issuer.URL, "AUD": issuer.Audience, "SUB": sub, "EXP": time.Now().Add(time.Hour).Unix()})},
	} {
		t.Run(name, func(t *testing.T) {
			w.refused(t, c.reason, c.token)
			if c.reason == "algorithm" {
				_, err := w.Verify(t.Context(), c.token)
				require.ErrorContains(t, err, "others, and none, are refused", "whatever the key of the issuer is for")
			}
		})
	}
	t.Run("clocks that differ by less than a minute", func(t *testing.T) {
		_, err := w.Verify(t.Context(), w.token(t, -50*time.Second))
		require.NoError(t, err)
		_, err = w.Verify(t.Context(), w.token(t, time.Hour, func(c *jwt.Claims) { c.NotBefore = jwt.NewNumericDate(time.Now().Add(50 * time.Second)) }))
		require.NoError(t, err)
	})
	t.Run("a token of the cache that ends", func(t *testing.T) {
		w.clock.move(time.Hour + 2*time.Minute)
		w.refused(t, "expired", good)
	})
}

// TestKeysAreRotated: a new key is fetched when a token names it, at most every 10 s, and one that is withdrawn counts no more,
// also for tokens of the cache.
func TestKeysAreRotated(t *testing.T) {
	w := newWorld(t)
	old := w.token(t, time.Hour)
	_, err := w.Verify(t.Context(), old)
	require.NoError(t, err)
	next := issuer.NewKey(t, "next")
	renewed := next.Sign(t, w.issuer.Claims(sub, time.Hour))
	w.issuer.Publish(w.key, next)
	for range 3 {
		w.refused(t, "key", renewed)
	}
	require.EqualValues(t, 1, w.issuer.Fetches.Load(), "10 s have not passed")
	w.clock.move(11 * time.Second)
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			_, err := w.Verify(t.Context(), renewed)
			assert.NoError(t, err)
		})
	}
	all.Wait()
	require.EqualValues(t, 2, w.issuer.Fetches.Load(), "one fetch for all")
	_, err = w.Verify(t.Context(), old)
	require.NoError(t, err)

	w.issuer.Publish(next)
	w.clock.move(11 * time.Second)
	w.refused(t, "key", issuer.NewKey(t, "third").Sign(t, w.issuer.Claims(sub, time.Hour)))
	w.refused(t, "key", old)
	_, err = w.Verify(t.Context(), renewed)
	require.NoError(t, err)
}

// TestTroubleWithTheServerOfTheKeys leaves the keys as they were, and the log has one line about it.
func TestTroubleWithTheServerOfTheKeys(t *testing.T) {
	w := newWorld(t)
	other, key := issuer.New(t), issuer.NewKey(t, "stranger")
	other.Publish(key)
	stranger := key.Sign(t, w.issuer.Claims(sub, time.Hour))
	private, err := json.Marshal(jose.JSONWebKey{Key: key.Private, KeyID: key.ID})
	require.NoError(t, err)
	answers := map[string]http.HandlerFunc{
		"500":        func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(http.StatusInternalServerError) },
		"401":        func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(http.StatusUnauthorized) },
		"a redirect": func(rw http.ResponseWriter, r *http.Request) { http.Redirect(rw, r, other.JWKS(), http.StatusFound) },
		"no JSON":    func(rw http.ResponseWriter, _ *http.Request) { fmt.Fprint(rw, "<html>") },
		"no key":     func(rw http.ResponseWriter, _ *http.Request) { fmt.Fprint(rw, `{"keys":[]}`) },
		"a secret": func(rw http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(rw, `{"keys":[{"kty":"oct","kid":"one","k":"c2VjcmV0"}]}`)
		},
		"too much": func(rw http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(rw, string(other.Document()), strings.Repeat(" ", 2<<20))
		},
		"a private key": func(rw http.ResponseWriter, _ *http.Request) { fmt.Fprintf(rw, `{"keys":[%s]}`, private) },
		"for encryption": func(rw http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(rw, strings.Replace(string(other.Document()), `"sig"`, `"enc"`, 1))
		},
		"65 keys": func(rw http.ResponseWriter, _ *http.Request) {
			fmt.Fprintf(rw, `{"keys":[{}%s]}`, strings.Repeat(",{}", 64))
		},
		"a kid twice": func(rw http.ResponseWriter, _ *http.Request) {
			k := strings.TrimSuffix(strings.TrimPrefix(string(w.issuer.Document()), `{"keys":[`), `]}`)
			fmt.Fprintf(rw, `{"keys":[%s,%s]}`, k, k)
		},
	}
	w.issuer.Answer(answers["500"])
	w.refused(t, "unavailable", w.token(t, time.Hour))
	w.issuer.Answer(nil)
	w.clock.move(11 * time.Second)
	_, err = w.Verify(t.Context(), w.token(t, time.Hour))
	require.NoError(t, err)
	require.Contains(t, w.log.String(), "can be had again")
	for name, answer := range answers {
		w.issuer.Answer(answer)
		w.clock.move(11 * time.Second)
		before := w.issuer.Fetches.Load()
		w.refused(t, "key", stranger)
		require.Equal(t, before+1, w.issuer.Fetches.Load(), name)
		_, err := w.Verify(t.Context(), w.token(t, time.Hour))
		require.NoError(t, err, name)
	}
	require.Equal(t, 2, strings.Count(w.log.String(), "cannot be had"), w.log.String())
}

func TestTheServerOfTheKeysMayWantAToken(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(file, []byte("first\n"), 0o600))
	w := newWorld(t, func(s *tokens.Settings) { s.TokenFile = file })
	w.issuer.Wants = "Bearer second"
	w.refused(t, "unavailable", w.token(t, time.Hour))
	require.Contains(t, w.log.String(), "security.token_keys_token")
	require.NoError(t, os.WriteFile(file, []byte("second\n"), 0o600))
	w.clock.move(11 * time.Second)
	_, err := w.Verify(t.Context(), w.token(t, time.Hour))
	require.NoError(t, err)
	for _, text := range []string{"", "two tokens", strings.Repeat("a", tokens.MaxToken+1)} {
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		_, err := tokens.ReadFile(file)
		require.Error(t, err, text)
	}
	_, err = tokens.ReadFile(filepath.Dir(file))
	require.ErrorContains(t, err, "not a regular file")
}

// TestTheTokenIsNotShownToAnotherServer, to which the OpenID configuration points.
func TestTheTokenIsNotShownToAnotherServer(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(file, []byte("secret"), 0o600))
	other := issuer.New(t)
	w := newWorld(t, func(s *tokens.Settings) { s.TokenFile = file })
	w.issuer.Elsewhere = other.JWKS()
	var shown []string
	other.Answer(func(rw http.ResponseWriter, r *http.Request) {
		shown = append(shown, r.Header.Get("Authorization"))
		_, _ = rw.Write(w.issuer.Document())
	})
	_, err := w.Verify(t.Context(), w.token(t, time.Hour)) // Servers of httptest have one certificate for all.
	require.NoError(t, err)
	require.Equal(t, []string{""}, shown)
	for _, place := range []string{"http://127.0.0.1/keys", "file:/etc/passwd", "https://"} {
		w := newWorld(t)
		w.issuer.Elsewhere = place
		w.refused(t, "unavailable", w.token(t, time.Hour))
		require.Contains(t, w.log.String(), "which does not begin with https://HOST", place)
	}
	w = newWorld(t, func(s *tokens.Settings) { s.Issuer += "/" })
	w.refused(t, "unavailable", w.token(t, time.Hour))
	require.Contains(t, w.log.String(), "is the OpenID configuration of the issuer")
}

func TestRunFollowsAFile(t *testing.T) {
	i, key, log := issuer.New(t), issuer.NewKey(t, "one"), &logbuf.Buffer{}
	i.Publish(key)
	file := filepath.Join(t.TempDir(), "jwks.json")
	require.NoError(t, os.WriteFile(file, i.Document(), 0o600))
	s := settings(i)
	s.Keys, s.LookEvery, s.Log = "file:"+file, time.Millisecond, slog.New(slog.NewTextHandler(log, nil))
	v, err := tokens.Open(s)
	require.NoError(t, err)
	stop := run(t, v)
	defer stop()
	token := key.Sign(t, i.Claims(sub, time.Hour))
	_, err = v.Verify(t.Context(), token)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file, []byte("{"), 0o600))
	require.Eventually(t, func() bool { return strings.Contains(log.String(), "cannot be had") }, time.Minute, time.Millisecond)
	_, err = v.Verify(t.Context(), token)
	require.NoError(t, err)
	next := issuer.NewKey(t, "next")
	i.Publish(next)
	require.NoError(t, os.WriteFile(file, i.Document(), 0o600))
	require.Eventually(t, func() bool { _, err := v.Verify(t.Context(), token); return err != nil }, time.Minute, time.Millisecond)
	_, err = v.Verify(t.Context(), next.Sign(t, i.Claims(sub, time.Hour)))
	require.NoError(t, err)
	require.Zero(t, i.Fetches.Load())
}

// run has a verifier run until the function that it returns is called.
func run(t *testing.T, v *tokens.Verifier) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var work sync.WaitGroup
	work.Go(func() { v.Run(ctx) })
	return func() { cancel(); work.Wait() }
}

func TestRunFetches(t *testing.T) {
	w := newWorld(t, func(s *tokens.Settings) { s.FetchEvery = time.Millisecond })
	stop := run(t, w.Verifier)
	defer stop()
	token := w.token(t, time.Hour)
	require.Eventually(t, func() bool { return w.issuer.Fetches.Load() > 2 }, time.Minute, time.Millisecond)
	_, err := w.Verify(t.Context(), token)
	require.NoError(t, err)
	w.issuer.Publish(issuer.NewKey(t, "one"))
	require.Eventually(t, func() bool { _, err := w.Verify(t.Context(), token); return err != nil }, time.Minute, time.Millisecond)
}

// TestAnEndDuringAFetch: the process does not wait for a server that does not answer.
func TestAnEndDuringAFetch(t *testing.T) {
	w := newWorld(t)
	asked, over := make(chan struct{}), make(chan struct{})
	w.issuer.Answer(func(_ http.ResponseWriter, r *http.Request) { close(asked); <-r.Context().Done(); close(over) })
	stop := run(t, w.Verifier)
	<-asked
	stop()
	<-over
}

func TestOpenRefuses(t *testing.T) {
	i := issuer.New(t)
	bad := filepath.Join(t.TempDir(), "bad")
	require.NoError(t, os.WriteFile(bad, []byte("bad"), 0o600))
	for reason, change := range map[string]func(*tokens.Settings){
		"an issuer and an audience":   func(s *tokens.Settings) { s.Audience = "" },
		"the roles are":               func(s *tokens.Settings) { s.Subjects = []string{"root=a"} },
		"cannot be read: " + "it is":  func(s *tokens.Settings) { s.Keys = "file:" + bad },
		"no such file":                func(s *tokens.Settings) { s.Keys = "file:" + bad + "2" },
		"has no certificate":          func(s *tokens.Settings) { s.CAFile = bad },
		"security.token_keys_ca":      func(s *tokens.Settings) { s.CAFile = bad + "2" },
		"must be file:PATH or https:": func(s *tokens.Settings) { s.Keys = "ftp://a/b" },
	} {
		s := settings(i)
		change(&s)
		_, err := tokens.Open(s)
		require.ErrorContains(t, err, reason)
	}
	v, err := tokens.Open(tokens.Settings{})
	require.NoError(t, err)
	require.Nil(t, v)
	v.Run(t.Context())
}

// FuzzVerify: only what the issuer signed is a token, whatever the bytes.
func FuzzVerify(f *testing.F) {
	i, key := issuer.New(f), issuer.NewKey(f, "one")
	i.Publish(key)
	file := filepath.Join(f.TempDir(), "jwks.json")
	require.NoError(f, os.WriteFile(file, i.Document(), 0o600))
	s := settings(i)
	s.Keys = "file:" + file
	v, err := tokens.Open(s)
	require.NoError(f, err)
	good := key.Sign(f, i.Claims(sub, time.Hour))
	for _, seed := range []string{good, "", "a.b.c", good + "=", strings.ToUpper(good), strings.Replace(good, ".", "..", 1)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, token string) {
		b, err := v.Verify(t.Context(), token)
		if err == nil {
			require.Equal(t, strings.Split(good, ".")[:2], strings.Split(token, ".")[:2])
			require.Equal(t, security.RoleReader, b.Identity.Role)
			return
		}
		var r *tokens.Refusal
		require.True(t, errors.As(err, &r))
		require.LessOrEqual(t, len(err.Error()), 1000)
	})
}
