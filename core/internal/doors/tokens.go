package doors

import (
	"crypto/tls"
	"fmt"
	"net/http"

	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/internal/tokens"
	"github.com/mooncake-go/mooncake/sdk/security"
)

// Tokens returns what verifies the bearer tokens of requests at a door, nil for a door that takes none.
func (d *Doors) Tokens(door config.Door) *tokens.Verifier {
	if d == nil || !d.cfg.TakesTokens(door) {
		return nil
	}
	return d.tokens
}

// server returns the configuration of a listener. One that takes tokens lets clients without a certificate in, which may
// make no call until they show a token.
func (d *Doors) server(door config.Door) *tls.Config {
	c := d.keeper.Server(protocols(door)...)
	if !d.cfg.TakesTokens(door) {
		return c
	}
	choose := c.GetConfigForClient
	c.GetConfigForClient = func(h *tls.ClientHelloInfo) (*tls.Config, error) {
		c, err := choose(h)
		if err != nil || c.VerifyConnection == nil {
			return c, err
		}
		verify := c.VerifyConnection
		c.ClientAuth = tls.RequestClientCert
		c.VerifyConnection = func(s tls.ConnectionState) error {
			if len(s.PeerCertificates) == 0 {
				return nil
			}
			return verify(s)
		}
		return c, nil
	}
	return c
}

// ShowToken has the requests of t to a door of another process carry the token of security.token_file. It does so with mode
// tls only: with mtls the certificate says who this process is, and a plaintext door would show the token to the network.
func (d *Doors) ShowToken(t http.RoundTripper, door config.Door) http.RoundTripper {
	if d.plain(door) || d.cfg.TokenFile == "" || security.Mode(d.cfg.Mode) != security.ModeTLS {
		return t
	}
	return shows{t, d.cfg.TokenFile}
}

// shows reads the token for each request, since files such as the projected tokens of Kubernetes are replaced.
type shows struct {
	http.RoundTripper
	file string
}

// RoundTrip implements http.RoundTripper.
func (s shows) RoundTrip(r *http.Request) (*http.Response, error) {
	token, err := tokens.ReadFile(s.file)
	if err != nil {
		if r.Body != nil {
			_ = r.Body.Close()
		}
		return nil, fmt.Errorf("security.token_file: %w", err)
	}
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+token)
	return s.RoundTripper.RoundTrip(r)
}
