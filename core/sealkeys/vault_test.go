package sealkeys

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/sdk/errs"
)

// transit is a server of the calls datakey/plaintext and decrypt of Vault's engine transit, as its public API documents them: keys of
// the type aes256-gcm96 with versions, and those with derived set take the context of a call into account.
type transit struct {
	*httptest.Server
	mu      sync.Mutex
	token   string
	derived bool
	keys    map[string][][]byte // by name, in versions
	asked   map[string]int
	fail    []int // statuses of the next answers
	hang    chan struct{}
}

func newTransit(t *testing.T) *transit {
	s := &transit{token: "s.token", keys: map[string][][]byte{"pool": {make([]byte, 32)}, "pool-a": {make([]byte, 32)}}, asked: map[string]int{}}
	for _, versions := range s.keys {
		_, _ = rand.Read(versions[0])
	}
	s.Server = httptest.NewTLSServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *transit) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	refuse := func(status int, why string) {
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(map[string][]string{"errors": {why}})
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.hang != nil {
		hang := s.hang
		s.mu.Unlock()
		<-hang
		s.mu.Lock()
	}
	var in struct {
		Context, Ciphertext string
		Bits                int
	}
	what, _ := strings.CutPrefix(r.URL.Path, "/v1/secret/transit/")
	if len(s.fail) > 0 {
		status := s.fail[0]
		s.fail = s.fail[1:]
		refuse(status, "it was told to")
		return
	}
	if r.Method != http.MethodPost || json.NewDecoder(r.Body).Decode(&in) != nil {
		refuse(405, "method")
		return
	}
	if r.Header.Get("X-Vault-Token") != s.token {
		refuse(403, "permission denied")
		return
	}
	op, name := what[:strings.LastIndexByte(what, '/')], what[strings.LastIndexByte(what, '/')+1:]
	s.asked[op]++
	versions := s.keys[name]
	ad, err := base64.StdEncoding.DecodeString(in.Context)
	if versions == nil || err != nil || s.derived && len(ad) == 0 {
		refuse(400, "encryption key not found")
		return
	}
	if !s.derived {
		ad = nil
	}
	data := map[string]string{}
	switch op {
	case "datakey/plaintext":
		secret, nonce := make([]byte, in.Bits/8), make([]byte, 12)
		_, _ = rand.Read(secret)
		_, _ = rand.Read(nonce)
		data["plaintext"] = base64.StdEncoding.EncodeToString(secret)
		data["ciphertext"] = fmt.Sprintf("vault:v%d:%s", len(versions), base64.StdEncoding.EncodeToString(aead(versions[len(versions)-1]).Seal(nonce, nonce, secret, ad)))
	case "decrypt":
		var v int
		var text string
		_, err := fmt.Sscanf(in.Ciphertext, "vault:v%d:%s", &v, &text)
		b, err2 := base64.StdEncoding.DecodeString(text)
		if err != nil || err2 != nil || v < 1 || v > len(versions) || len(b) < 12 {
			refuse(400, "invalid ciphertext")
			return
		}
		plain, err := aead(versions[v-1]).Open(nil, b[:12], b[12:], ad)
		if err != nil {
			refuse(400, "cipher: message authentication failed")
			return
		}
		data["plaintext"] = base64.StdEncoding.EncodeToString(plain)
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"request_id": "x", "data": data})
}

func aead(key []byte) cipher.AEAD {
	b, _ := aes.NewCipher(key)
	a, _ := cipher.NewGCM(b)
	return a
}

// open opens the keys at the server.
func (s *transit) open(t *testing.T, name string, o Options) *vault {
	dir := t.TempDir()
	o.CAFile, o.TokenFile = filepath.Join(dir, "ca.pem"), filepath.Join(dir, "token")
	require.NoError(t, os.WriteFile(o.CAFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}), 0o600))
	require.NoError(t, os.WriteFile(o.TokenFile, []byte("s.token\n"), 0o600))
	k, err := Open("vault:"+s.URL+"/secret/transit/"+name, o)
	require.NoError(t, err)
	t.Cleanup(k.Close)
	return k.(*vault)
}

func TestVault(t *testing.T) {
	s := newTransit(t)
	w, r := s.open(t, "pool", Options{Period: time.Hour}), s.open(t, "pool", Options{})
	now := time.Now()
	w.now = func() time.Time { return now }
	a, err := w.Current(t.Context(), "default")
	require.NoError(t, err)
	again, err := w.Current(t.Context(), "default")
	require.NoError(t, err)
	require.Equal(t, a, again)
	require.Equal(t, 1, s.asked["datakey/plaintext"], "one for each period")
	for range 3 {
		for _, v := range []*vault{w, r} {
			got, err := v.Find(t.Context(), "default", a.ID)
			require.NoError(t, err)
			require.Equal(t, a, got)
		}
	}
	require.Equal(t, 1, s.asked["decrypt"], "the maker knows it, and the reader asks once")

	// The key of the server is rotated, and the period ends.
	s.keys["pool"] = append(s.keys["pool"], bytes32(7))
	now = now.Add(time.Hour)
	b, err := w.Current(t.Context(), "default")
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(b.ID, "vault:v2:"), b.ID)
	for _, k := range []Key{a, b} {
		got, err := r.Find(t.Context(), "default", k.ID)
		require.NoError(t, err)
		require.Equal(t, k, got)
	}
}

func bytes32(b byte) []byte { return []byte(strings.Repeat(string(rune(b)), 32)) }

// TestVaultTenants: tenants have keys of their own, by name or by context.
func TestVaultTenants(t *testing.T) {
	s := newTransit(t)
	v := s.open(t, "pool-{tenant}", Options{})
	k, err := v.Current(t.Context(), "a")
	require.NoError(t, err)
	_, err = s.open(t, "pool", Options{}).Find(t.Context(), "default", k.ID)
	require.ErrorIs(t, err, ErrUnknown)
	_, err = v.Current(t.Context(), "b")
	require.ErrorIs(t, err, errs.UnavailableInCurrentStatus.Err())
	require.ErrorContains(t, err, "is there a transit key of this name?")

	s.derived = true
	v = s.open(t, "pool", Options{})
	k, err = v.Current(t.Context(), "a")
	require.NoError(t, err)
	_, err = s.open(t, "pool", Options{}).Find(t.Context(), "b", k.ID)
	require.ErrorIs(t, err, ErrUnknown)
	_, err = s.open(t, "pool", Options{}).Find(t.Context(), "a", k.ID)
	require.NoError(t, err)
}

// TestVaultIsAway: the server is asked again a few times, and a data key stays in use.
func TestVaultIsAway(t *testing.T) {
	s := newTransit(t)
	var warned []error
	v := s.open(t, "pool", Options{Period: time.Minute, Warn: func(_ string, err error) { warned = append(warned, err) }})
	now := time.Now()
	v.now = func() time.Time { return now }
	s.fail = []int{503, 429}
	k, err := v.Current(t.Context(), "default")
	require.NoError(t, err)
	now = now.Add(time.Hour)
	s.fail = []int{503, 500, 472}
	for range 2 {
		got, err := v.Current(t.Context(), "default")
		require.NoError(t, err)
		require.Equal(t, k, got)
	}
	require.Len(t, warned, 1)
	require.Empty(t, s.fail)
	other, err := s.open(t, "pool", Options{}).Current(t.Context(), "default")
	require.NoError(t, err)
	s.fail = []int{503, 500, 472}
	_, err = v.Find(t.Context(), "default", other.ID)
	require.ErrorIs(t, err, errs.UnavailableInCurrentStatus.Err())
	require.NotErrorIs(t, err, ErrUnknown)
	_, err = v.Find(t.Context(), "default", other.ID)
	require.NoError(t, err, "that is not remembered")

	// A token that the server does not know any more, and its successor.
	now = now.Add(time.Hour)
	s.token = "s.next"
	third, err := s.open(t, "pool", Options{}).Current(t.Context(), "default")
	require.ErrorContains(t, err, "the token in")
	require.Zero(t, third)
	require.NoError(t, os.WriteFile(v.token, []byte("s.next"), 0o600))
	next, err := v.Current(t.Context(), "default")
	require.NoError(t, err)
	require.NotEqual(t, k.ID, next.ID)
}

// TestForgedIDs: what a node writes as the ID of a key does not flood the server.
func TestForgedIDs(t *testing.T) {
	s := newTransit(t)
	v := s.open(t, "pool", Options{})
	k, err := v.Current(t.Context(), "default")
	require.NoError(t, err)
	for _, id := range []string{"", "x", "vault:v1:", "vault:v0:AAAA", "vault:v1:../../sys", "vault:v1:AAAA\n", strings.Repeat("A", 105), "vault:v1:" + strings.Repeat("A", 100)} {
		_, err := v.Find(t.Context(), "default", id)
		require.ErrorIs(t, err, ErrUnknown)
	}
	require.Zero(t, s.asked["decrypt"])
	forged := k.ID[:len(k.ID)-8] + "AAAAAAA="
	for range 5 {
		_, err := v.Find(t.Context(), "default", forged)
		require.ErrorIs(t, err, ErrUnknown)
	}
	require.Equal(t, 1, s.asked["decrypt"])
	for i := range maxRefused + 10 {
		remember(v.refused, fmt.Sprint(i), time.Now(), maxRefused)
	}
	require.Len(t, v.refused, maxRefused)
}

// TestVaultHangs: callers wait no longer than their context, and share a request.
func TestVaultHangs(t *testing.T) {
	s := newTransit(t)
	s.hang = make(chan struct{})
	v := s.open(t, "pool", Options{})
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for range 10 {
		wg.Go(func() {
			_, err := v.Current(ctx, "default")
			if err != nil {
				require.ErrorIs(t, err, context.Canceled)
			}
		})
	}
	cancel()
	wg.Wait()
	close(s.hang)
	_, err := v.Current(t.Context(), "default")
	require.NoError(t, err)
}

func TestVaultNeedsFiles(t *testing.T) {
	_, err := Open("vault:https://v/transit/k", Options{})
	require.ErrorContains(t, err, "seal_vault_token")
	bad := filepath.Join(t.TempDir(), "bad")
	require.NoError(t, os.WriteFile(bad, []byte("two words"), 0o600))
	_, err = Open("vault:https://v/transit/k", Options{TokenFile: bad})
	require.ErrorContains(t, err, "one token")
	_, err = Open("vault:https://v/transit/k", Options{TokenFile: bad, CAFile: bad})
	require.ErrorContains(t, err, "no certificate")
	_, err = Open("vault:https://v/transit/k", Options{TokenFile: bad, CAFile: "/nonexistent"})
	require.ErrorIs(t, err, errs.FileOpenFail.Err())
}
