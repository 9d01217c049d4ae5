// Package issuer is an OpenID Connect issuer for tests: it serves its configuration and its keys over TLS, and signs tokens.
package issuer

import (
	"cmp"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/stretchr/testify/require"
)

// Audience is that of the tokens.
const Audience = "mooncake"

// Issuer is an issuer. Safe for concurrent use.
type Issuer struct {
	// URL is the issuer (iss), CA the file with the authority of its server.
	URL, CA string
	// Fetches counts the requests for keys.
	Fetches atomic.Int64
	// Wants is what a request must have as its Authorization, empty for nothing.
	Wants string
	// Elsewhere is the URL of the keys in the OpenID configuration, empty for that of this server.
	Elsewhere string

	mu     sync.Mutex
	keys   []jose.JSONWebKey // public ones
	answer http.HandlerFunc  // in place of the keys
}

// New starts an issuer without a key. It ends with the test.
func New(t testing.TB) *Issuer {
	t.Helper()
	i := &Issuer{}
	mux := http.NewServeMux()
	server := httptest.NewTLSServer(mux)
	t.Cleanup(server.Close)
	mux.HandleFunc("GET /.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]string{"issuer": i.URL, "jwks_uri": cmp.Or(i.Elsewhere, i.JWKS())})
	})
	mux.HandleFunc("GET /keys", i.serve)
	i.URL = server.URL
	i.CA = filepath.Join(t.TempDir(), "issuer-ca.pem")
	root := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	require.NoError(t, os.WriteFile(i.CA, root, 0o600))
	return i
}

func (i *Issuer) serve(w http.ResponseWriter, r *http.Request) {
	i.Fetches.Add(1)
	if i.Wants != "" && r.Header.Get("Authorization") != i.Wants {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	i.mu.Lock()
	answer := i.answer
	i.mu.Unlock()
	if answer != nil {
		answer(w, r)
		return
	}
	_, _ = w.Write(i.Document())
}

// JWKS returns the URL of the keys.
func (i *Issuer) JWKS() string { return i.URL + "/keys" }

// Document returns the keys as a JWKS.
func (i *Issuer) Document() []byte {
	i.mu.Lock()
	defer i.mu.Unlock()
	text, err := json.Marshal(jose.JSONWebKeySet{Keys: i.keys})
	if err != nil {
		panic(err)
	}
	return text
}

// Answer has a request for keys answered by f, nil for the keys.
func (i *Issuer) Answer(f http.HandlerFunc) {
	i.mu.Lock()
	i.answer = f
	i.mu.Unlock()
}

// Key signs tokens.
type Key struct {
	ID      string
	Private crypto.Signer
	Alg     jose.SignatureAlgorithm
}

// NewKey makes a key for ES256. The issuer does not know it yet.
func NewKey(t testing.TB, id string) Key {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	return Key{ID: id, Private: k, Alg: jose.ES256}
}

// Publish has the issuer have these keys alone.
func (i *Issuer) Publish(keys ...Key) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.keys = nil
	for _, k := range keys {
		i.keys = append(i.keys, jose.JSONWebKey{Key: k.Private.Public(), KeyID: k.ID, Use: "sig", Algorithm: string(k.Alg)})
	}
}

// Claims returns the claims of a good token of a subject, which ends after a time.
func (i *Issuer) Claims(sub string, life time.Duration) jwt.Claims {
	now := time.Now()
	return jwt.Claims{
		Issuer: i.URL, Subject: sub, Audience: jwt.Audience{Audience}, IssuedAt: jwt.NewNumericDate(now), NotBefore: jwt.NewNumericDate(now),
		Expiry: jwt.NewNumericDate(now.Add(life)),
	}
}

// Sign returns a token with claims.
func (k Key) Sign(t testing.TB, claims any) string {
	t.Helper()
	return Sign(t, jose.SigningKey{Algorithm: k.Alg, Key: k.Private}, k.ID, claims)
}

// Sign returns a token with claims that any key signs, also one that no issuer should use.
func Sign(t testing.TB, key jose.SigningKey, kid string, claims any) string {
	t.Helper()
	opts := &jose.SignerOptions{}
	if kid != "" {
		opts = opts.WithHeader(jose.HeaderKey("kid"), kid)
	}
	s, err := jose.NewSigner(key, opts)
	require.NoError(t, err)
	token, err := jwt.Signed(s).Claims(claims).Serialize()
	require.NoError(t, err)
	return token
}
