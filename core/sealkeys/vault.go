package sealkeys

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/mooncake-go/mooncake/sdk/errs"
)

const (
	// askTimeout bounds one request to a Vault server, askTries how often it is tried, and askPause is the pause before the
	// second time. It doubles.
	askTimeout, askTries, askPause = 3 * time.Second, 3, 100 * time.Millisecond
	// maxAsks bounds the requests in flight, so that forged objects do not flood the server.
	maxAsks = 4
	// maxKnown bounds the keys that are remembered, and maxRefused the IDs that the server refused, for refusedFor.
	maxKnown, maxRefused = 4096, 1024
	refusedFor           = time.Minute
	// renewPause is how long after a failure to renew a data key the next attempt waits.
	renewPause = 10 * time.Second
	// maxAnswer bounds an answer of the server, in bytes.
	maxAnswer = 64 << 10
)

// wrapped is what IDs of keys look like: data keys as Vault's engine transit encrypts them.
var wrapped = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^vault:v[1-9][0-9]{0,12}:[A-Za-z0-9+/]+={0,2}$`)
})

// vault implements Keys with data keys of the secrets engine transit. The server makes a data key for each tenant and
// period, and its encrypted form is its ID, so that whoever the server allows to decrypt finds it by its ID alone.
type vault struct {
	base  string // the URL of the engine
	name  string // of the key, with {tenant}
	token string // the file
	http  *http.Client
	o     Options
	now   func() time.Time
	slots chan struct{}
	calls singleflight.Group

	mu      sync.Mutex
	current map[string]*dataKey
	known   map[string]Key       // by tenant and ID
	refused map[string]time.Time // until when
}

// dataKey is the current key of a tenant.
type dataKey struct {
	Key
	renew time.Time
}

func openVault(place string, o Options) (Keys, error) {
	server, mount, name, err := parseVault(place)
	if err != nil {
		return nil, err
	}
	if o.Period <= 0 {
		o.Period = 24 * time.Hour
	}
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	t.MaxConnsPerHost, t.IdleConnTimeout = maxAsks, 30*time.Second
	if o.CAFile != "" {
		pem, err := os.ReadFile(o.CAFile)
		if err != nil {
			return nil, errs.Wrap(errs.FileOpenFail, "security.seal_vault_ca", err)
		}
		t.TLSClientConfig.RootCAs = x509.NewCertPool()
		if !t.TLSClientConfig.RootCAs.AppendCertsFromPEM(pem) {
			return nil, errs.New(errs.InvalidParams, "security.seal_vault_ca", "%s has no certificate", o.CAFile)
		}
	}
	v := &vault{
		base: server.JoinPath("v1", mount).String(), name: name, token: o.TokenFile, o: o, now: time.Now, slots: make(chan struct{}, maxAsks),
		http:    &http.Client{Transport: t, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
		current: map[string]*dataKey{}, known: map[string]Key{}, refused: map[string]time.Time{},
	}
	if _, err := v.readToken(); err != nil {
		return nil, err
	}
	return v, nil
}

func (v *vault) Close() { v.http.CloseIdleConnections() }

// Current returns the data key of the period. Where the server cannot make the next one, the last one stays.
func (v *vault) Current(ctx context.Context, tenant string) (Key, error) {
	v.mu.Lock()
	old := v.current[tenant]
	v.mu.Unlock()
	if old != nil && v.now().Before(old.renew) {
		return old.Key, nil
	}
	k, err := v.once(ctx, "current\x00"+tenant, func(ctx context.Context) (Key, error) { return v.make(ctx, tenant) })
	v.mu.Lock()
	defer v.mu.Unlock()
	if err != nil && old != nil {
		if now := v.now(); !now.Before(old.renew) {
			old.renew = now.Add(renewPause)
			v.o.Warn("no new data key could be made; objects are sealed with the one before", err)
		}
		return old.Key, nil
	}
	return k, err
}

// make has the server make a data key.
func (v *vault) make(ctx context.Context, tenant string) (Key, error) {
	var got struct{ Plaintext, Ciphertext string }
	err := v.ask(ctx, "datakey/plaintext", tenant, map[string]any{"bits": 8 * SecretSize}, &got)
	if errors.Is(err, ErrUnknown) {
		err = errs.WithHint(v.unavailable("no data key could be made: %w", err), "is there a transit key of this name?")
	}
	if err != nil {
		return Key{}, err
	}
	k, err := keyOf(got.Ciphertext, got.Plaintext)
	if err == nil && (len(k.ID) > maxID || !wrapped().MatchString(k.ID)) {
		err = errs.New(errs.DeserializeFail, "Vault", "the encrypted data key has %d bytes, at most %d fit, and begins with %.12q; the type of the transit key should be aes256-gcm96", len(k.ID), maxID, k.ID)
	}
	if err != nil {
		return Key{}, err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.current[tenant] = &dataKey{k, v.now().Add(v.o.Period)}
	remember(v.known, tenant+"\x00"+k.ID, k, maxKnown)
	return k, nil
}

// Find has the server decrypt the ID, unless it has done so before.
func (v *vault) Find(ctx context.Context, tenant, id string) (Key, error) {
	if len(id) > maxID || !wrapped().MatchString(id) {
		return Key{}, ErrUnknown
	}
	at := tenant + "\x00" + id
	v.mu.Lock()
	k, ok := v.known[at]
	until, no := v.refused[at]
	v.mu.Unlock()
	switch {
	case ok:
		return k, nil
	case no && v.now().Before(until):
		return Key{}, ErrUnknown
	}
	return v.once(ctx, "find\x00"+at, func(ctx context.Context) (Key, error) {
		var got struct{ Plaintext string }
		err := v.ask(ctx, "decrypt", tenant, map[string]any{"ciphertext": id}, &got)
		var k Key
		if err == nil {
			k, err = keyOf(id, got.Plaintext)
		}
		v.mu.Lock()
		defer v.mu.Unlock()
		switch {
		case err == nil:
			remember(v.known, at, k, maxKnown)
		case errors.Is(err, ErrUnknown):
			remember(v.refused, at, v.now().Add(refusedFor), maxRefused)
		}
		return k, err
	})
}

// remember adds an entry to a map of a bounded size. It forgets any other where there are too many.
func remember[T any](m map[string]T, key string, value T, most int) {
	for k := range m {
		if len(m) < most {
			break
		}
		delete(m, k)
	}
	m[key] = value
}

func keyOf(id, plaintext string) (Key, error) {
	k := Key{ID: id}
	b, err := base64.StdEncoding.DecodeString(plaintext)
	if err != nil || len(b) != SecretSize {
		return Key{}, fmt.Errorf("%w: the data key does not have %d bytes", ErrUnknown, SecretSize)
	}
	copy(k.Secret[:], b)
	return k, nil
}

// once makes a call that several callers share, and that goes on, in bounded time, when one of them gives up.
func (v *vault) once(ctx context.Context, name string, f func(context.Context) (Key, error)) (Key, error) {
	done := v.calls.DoChan(name, func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), askTries*askTimeout)
		defer cancel()
		return f(ctx)
	})
	select {
	case r := <-done:
		if r.Err != nil {
			return Key{}, r.Err
		}
		return r.Val.(Key), nil
	case <-ctx.Done():
		return Key{}, errs.Wrap(errs.UnavailableInCurrentStatus, "Vault", ctx.Err())
	}
}

// ask makes a request, and repeats it where the server is not available.
func (v *vault) ask(ctx context.Context, what, tenant string, body map[string]any, answer any) error {
	select {
	case v.slots <- struct{}{}:
		defer func() { <-v.slots }()
	case <-ctx.Done():
		return v.unavailable("too many requests are in flight: %w", ctx.Err())
	}
	body["context"] = base64.StdEncoding.EncodeToString([]byte(tenant))
	b, err := json.Marshal(body)
	if err != nil {
		return err
	}
	at := v.base + "/" + what + "/" + url.PathEscape(strings.ReplaceAll(v.name, "{tenant}", tenant))
	for try, pause := 1, askPause; ; try, pause = try+1, 2*pause {
		retry, err := v.post(ctx, at, b, answer)
		if err == nil || !retry || try == askTries {
			return err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return err
		}
	}
}

// post makes a request once. retry: the next one may succeed.
func (v *vault) post(ctx context.Context, at string, body []byte, answer any) (retry bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	token, err := v.readToken()
	if err != nil {
		return false, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, at, bytes.NewReader(body))
	if err != nil {
		return false, v.unavailable("%w", err)
	}
	req.Header.Set("X-Vault-Token", token)
	req.Header.Set("X-Vault-Request", "true")
	req.Header.Set("Content-Type", "application/json")
	resp, err := v.http.Do(req)
	if err != nil {
		return true, v.unavailable("%w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return true, v.unavailable("%w", err)
	}
	if resp.StatusCode != http.StatusOK {
		return v.refusal(resp.StatusCode, b)
	}
	got := struct {
		Data any `json:"data"`
	}{answer}
	if err := json.Unmarshal(b, &got); err != nil {
		return false, v.unavailable("the answer is not what the engine transit answers: %w", err)
	}
	return false, nil
}

// refusal is the error of an answer.
func (v *vault) refusal(status int, body []byte) (retry bool, err error) {
	var why struct{ Errors []string }
	_ = json.Unmarshal(body, &why) // Where that fails, the status has to do.
	text := fmt.Sprintf("the answer is %d %s: %s", status, http.StatusText(status), strings.Join(why.Errors, "; "))
	switch {
	case status == http.StatusBadRequest:
		return false, fmt.Errorf("%w: Vault: %s", ErrUnknown, text)
	case status == http.StatusForbidden:
		return false, errs.WithHint(v.unavailable("%s", text), "the token in %s must be valid and may update datakey/plaintext and decrypt of the key", v.token)
	case status == http.StatusTooManyRequests, status == http.StatusPreconditionFailed, status >= 500:
		return true, v.unavailable("%s", text)
	}
	return false, v.unavailable("%s", text)
}

func (v *vault) unavailable(format string, args ...any) error {
	return errs.New(errs.UnavailableInCurrentStatus, "Vault at "+v.base, format, args...)
}

// readToken reads the token anew, since an agent may replace it.
func (v *vault) readToken() (string, error) {
	const op = "security.seal_vault_token"
	if v.token == "" {
		return "", errs.New(errs.InvalidParams, op, "it names no file, and keys in Vault need a token")
	}
	b, err := os.ReadFile(v.token)
	if err != nil {
		return "", errs.Wrap(errs.FileOpenFail, op, err)
	}
	token := strings.TrimSpace(string(b))
	if token == "" || strings.ContainsAny(token, " \r\n\t") {
		return "", errs.New(errs.InvalidParams, op, "%s does not have one token", v.token)
	}
	return token, nil
}
