package tokens

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"time"

	"github.com/mooncake-go/mooncake/sdk/errs"
)

// fetchTimeout bounds one attempt to get the keys, fetchPause is the least time between two.
const (
	fetchTimeout = 5 * time.Second
	fetchPause   = 10 * time.Second
)

// fetcher gets the keys of an issuer from a server.
type fetcher struct {
	address string // of the JWKS, or of the OpenID configuration of issuer
	issuer  string // empty where address is that of the JWKS
	token   string // the file
	http    *http.Client
}

func newFetcher(address string, s Settings) (*fetcher, error) {
	t := http.DefaultTransport.(*http.Transport).Clone() //nolint:forcetypeassert // The package says so.
	t.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	t.DisableKeepAlives = true // There are minutes between two requests.
	if s.CAFile != "" {
		pem, err := os.ReadFile(s.CAFile)
		if err != nil {
			return nil, errs.Wrap(errs.FileOpenFail, "security.token_keys_ca", err)
		}
		t.TLSClientConfig.RootCAs = x509.NewCertPool()
		if !t.TLSClientConfig.RootCAs.AppendCertsFromPEM(pem) {
			return nil, errs.New(errs.InvalidParams, "security.token_keys_ca", "%s has no certificate in PEM", s.CAFile)
		}
	}
	f := &fetcher{address: address, token: s.TokenFile, http: &http.Client{
		Transport: t, Timeout: fetchTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	if s.Keys == "" {
		f.issuer = s.Issuer
	}
	return f, nil
}

// fetch returns the JWKS.
func (f *fetcher) fetch(ctx context.Context) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	if f.issuer == "" {
		return f.get(ctx, f.address)
	}
	text, err := f.get(ctx, f.address)
	if err != nil {
		return nil, err
	}
	var doc struct {
		Issuer string `json:"issuer"`
		JWKS   string `json:"jwks_uri"`
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		return nil, fmt.Errorf("%s: it is not an OpenID configuration: %w", f.address, err)
	}
	if doc.Issuer != f.issuer {
		return nil, fmt.Errorf("%s is the OpenID configuration of the issuer %.200q, and security.token_issuer is %q", f.address, doc.Issuer, f.issuer)
	}
	if !overHTTPS(doc.JWKS) {
		return nil, fmt.Errorf("%s: jwks_uri is %.200q, which does not begin with https://HOST", f.address, doc.JWKS)
	}
	return f.get(ctx, doc.JWKS)
}

// get returns a document. It shows the token to the server only that the settings name.
func (f *fetcher) get(ctx context.Context, at string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return nil, err
	}
	if own, err := url.Parse(f.address); f.token != "" && err == nil && own.Host == req.URL.Host {
		token, err := ReadFile(f.token)
		if err != nil {
			return nil, fmt.Errorf("security.token_keys_token: %w", err)
		}
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := f.http.Do(req)
	if err != nil {
		return nil, err // It names the URL.
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxDocument+1))
	switch {
	case resp.StatusCode == http.StatusUnauthorized, resp.StatusCode == http.StatusForbidden:
		return nil, fmt.Errorf("%s answers %s: it wants a token, or another one, in the file of security.token_keys_token", at, resp.Status)
	case resp.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("%s answers %s", at, resp.Status)
	case err != nil:
		return nil, fmt.Errorf("%s: %w", at, err)
	case len(text) > maxDocument:
		return nil, fmt.Errorf("%s: the answer has more than %d bytes", at, maxDocument)
	}
	return text, nil
}

// readKeys reads a file with keys.
func readKeys(path string) ([]byte, error) {
	return readAtMost(path, maxDocument)
}

// ReadFile returns the token in a file, as commands show it.
func ReadFile(path string) (string, error) {
	text, err := readAtMost(path, MaxToken+2)
	if err != nil {
		return "", err
	}
	token := string(bytes.TrimSpace(text))
	if !WellFormed(token) {
		return "", fmt.Errorf("%s: it does not have one token of at most %d bytes, and nothing else", path, MaxToken)
	}
	return token, nil
}

func readAtMost(path string, most int64) ([]byte, error) {
	info, err := os.Stat(path)
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("it is not a regular file") // Opening a pipe could wait for ever.
	}
	if err != nil {
		return nil, err
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, most+1))
	if err == nil && int64(len(text)) > most {
		err = fmt.Errorf("%s: it has more than %d bytes", path, most)
	}
	return text, err
}
