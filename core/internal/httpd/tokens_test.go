package httpd_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/internal/access"
	"github.com/mooncake-go/mooncake/core/internal/doors"
	"github.com/mooncake-go/mooncake/core/internal/httpd"
	"github.com/mooncake-go/mooncake/core/internal/testkit/logbuf"
	"github.com/mooncake-go/mooncake/core/internal/tokens"
	"github.com/mooncake-go/mooncake/internal/issuer"
	"github.com/mooncake-go/mooncake/sdk/security"
	"github.com/mooncake-go/mooncake/sdk/security/securitytest"
)

// port is an HTTP port that takes tokens, with its issuer.
type port struct {
	issuer *issuer.Issuer
	key    issuer.Key
	pki    *securitytest.Authority
	doors  *doors.Doors
	addr   string
	log    *logbuf.Buffer
	stream chan error // how the stream of a request ended
}

func open(t *testing.T, mode string, change ...func(*config.Security)) *port {
	t.Helper()
	p := &port{issuer: issuer.New(t), key: issuer.NewKey(t, "one"), pki: securitytest.NewAuthority(t), log: &logbuf.Buffer{}, stream: make(chan error, 1)}
	p.issuer.Publish(p.key)
	f := p.pki.Issue(t, securitytest.Certificate{Role: security.RoleMaster, Name: "a", Hosts: []string{"127.0.0.1"}})
	cfg := config.Security{
		Mode: mode, CA: f.CA, Cert: f.Cert, Key: f.Key,
		Tokens:      []string{"reader/prometheus=prometheus", "operator=jobs:*", "operator/team/b=team"},
		TokenIssuer: p.issuer.URL, TokenAudience: issuer.Audience, TokenKeysCA: p.issuer.CA,
	}
	for _, c := range change {
		c(&cfg)
	}
	var err error
	p.doors, err = doors.Open(cfg, slog.New(slog.NewTextHandler(p.log, nil)))
	require.NoError(t, err)
	raw, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ln, err := p.doors.Guard(raw, config.DoorAdmin)
	require.NoError(t, err)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /who", func(w http.ResponseWriter, r *http.Request) {
		if peer := access.Of(r.Context()); peer != nil {
			fmt.Fprint(w, peer.Identity.String(), " at ", peer.Door)
			return
		}
		fmt.Fprint(w, "unknown")
	})
	k := p.doors.Access()
	k.Handle(mux, config.DoorAdmin, "PUT /api/v1/tenant_quotas", func(w http.ResponseWriter, r *http.Request) {
		k.Done(r.Context(), access.Find("admin", "PUT /api/v1/tenant_quotas"), "tenant", nil)
	})
	mux.HandleFunc("GET /stream", func(w http.ResponseWriter, r *http.Request) {
		c := http.NewResponseController(w)
		for {
			_ = c.SetWriteDeadline(time.Now().Add(time.Minute))
			_, err := fmt.Fprintln(w, "event")
			if err == nil {
				err = c.Flush()
			}
			if err != nil {
				p.stream <- err
				return
			}
		}
	})
	s := httpd.New(mux, httpd.Options{Doors: p.doors, Door: config.DoorAdmin})
	s.Start(ln)
	t.Cleanup(func() { require.NoError(t, s.Stop(context.Background())) })
	p.addr = ln.Addr().String()
	return p
}

func (p *port) token(t *testing.T, sub string) string {
	t.Helper()
	return p.key.Sign(t, p.issuer.Claims(sub, time.Hour))
}

// client returns a client that is none of this project, with or without a certificate.
func (p *port) client(t *testing.T, f *security.Files) *http.Client {
	t.Helper()
	root := p.pki.Issue(t, securitytest.Certificate{Role: security.RoleReader, Name: "x"})
	pem, err := os.ReadFile(root.CA)
	require.NoError(t, err)
	c := &tls.Config{RootCAs: x509.NewCertPool()}
	require.True(t, c.RootCAs.AppendCertsFromPEM(pem))
	if f != nil {
		pair, err := tls.LoadX509KeyPair(f.Cert, f.Key)
		require.NoError(t, err)
		c.Certificates = []tls.Certificate{pair}
	}
	transport := &http.Transport{TLSClientConfig: c}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// ask makes a request with headers Authorization.
func (p *port) ask(t *testing.T, c *http.Client, method, path string, authorization ...string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, "https://"+p.addr+path, http.NoBody)
	require.NoError(t, err)
	if len(authorization) > 0 {
		req.Header["Authorization"] = authorization
	}
	resp, err := c.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp, strings.TrimSpace(string(text))
}

func TestARequestHasTheIdentityOfItsToken(t *testing.T) {
	p := open(t, "mtls")
	c := p.client(t, nil)
	good := "Bearer " + p.token(t, "prometheus")
	for _, a := range []struct {
		authorization []string
		code          int
		challenge     string
		text          string
	}{
		{[]string{good}, 200, "", "reader/prometheus at admin"},
		{[]string{"bearer   " + p.token(t, "jobs:7")}, 200, "", "operator/jobs:7 at admin"},
		{[]string{"Bearer " + p.token(t, "team")}, 200, "", "operator/team/b at admin"},
		{nil, 401, `Bearer realm="mooncake"`, "commands take --token-file FILE"},
		{[]string{""}, 401, `Bearer realm="mooncake"`, "commands take"},
		{[]string{"Basic YTpi"}, 401, `Bearer realm="mooncake"`, "commands take"},
		{[]string{"Bearer"}, 401, `Bearer realm="mooncake", error="invalid_token"`, "not one token"},
		{[]string{"Bearer a b"}, 401, `Bearer realm="mooncake", error="invalid_token"`, "not one token"},
		{[]string{good + ", " + good}, 401, `Bearer realm="mooncake", error="invalid_token"`, "not one token"},
		{[]string{"Bearer " + strings.Repeat("a", tokens.MaxToken+1)}, 401, `Bearer realm="mooncake", error="invalid_token"`, "not one token of at most 8192 bytes"},
		{[]string{"Bearer " + p.token(t, "stranger")}, 401, `Bearer realm="mooncake", error="invalid_token"`, `the subject "stranger"`},
		{[]string{good, good}, 400, `Bearer realm="mooncake", error="invalid_request"`, "2 headers Authorization"},
	} {
		resp, text := p.ask(t, c, "GET", "/who", a.authorization...)
		assert.Equal(t, a.code, resp.StatusCode, "%.80q: %s", a.authorization, text)
		assert.Equal(t, a.challenge, resp.Header.Get("WWW-Authenticate"), "%.80q", a.authorization)
		assert.Contains(t, text, a.text)
		assert.Equal(t, a.code != 200, resp.Close, "%.80q", a.authorization)
	}
	require.NotContains(t, p.log.String(), good[20:])
	require.Contains(t, p.log.String(), "logger=audit who=unidentified door=admin remote=127.0.0.1:")
	for _, reason := range []string{"missing", "malformed", "twice", "unmapped"} {
		require.Contains(t, p.log.String(), "call=token result=refused reason="+reason)
	}
	require.Contains(t, gathered(t, p.doors), `mooncake_refused_calls_total{call="token",door="admin",role=""} 9`)

	t.Run("roles and tenants count", func(t *testing.T) {
		for sub, code := range map[string]int{"prometheus": 403, "team": 403, "jobs:1": 200} {
			resp, text := p.ask(t, c, "PUT", "/api/v1/tenant_quotas", "Bearer "+p.token(t, sub))
			require.Equal(t, code, resp.StatusCode, text)
		}
		require.Contains(t, p.log.String(), `msg="a call was refused" logger=audit who=reader/prometheus trust=`+p.issuer.URL+` door=admin remote=127.0.0.1`)
		require.Contains(t, p.log.String(), `msg="a call was made" logger=audit who=operator/jobs:1 trust=`+p.issuer.URL)
	})
	t.Run("a certificate", func(t *testing.T) {
		f := p.pki.Issue(t, securitytest.Certificate{Role: security.RoleOperator, Name: "a"})
		c := p.client(t, &f)
		resp, text := p.ask(t, c, "GET", "/who")
		require.Equal(t, 200, resp.StatusCode)
		require.Equal(t, "operator/a at admin", text)
		resp, text = p.ask(t, c, "GET", "/who", "Basic YTpi")
		require.Equal(t, 200, resp.StatusCode, text)
		resp, text = p.ask(t, c, "GET", "/who", good)
		require.Equal(t, 400, resp.StatusCode)
		require.Contains(t, text, "the certificate of operator/a, and the request a token")
	})
	t.Run("a certificate that is not good", func(t *testing.T) {
		f := securitytest.NewAuthority(t).Issue(t, securitytest.Certificate{Role: security.RoleOperator, Name: "a"})
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+p.addr+"/who", http.NoBody)
		require.NoError(t, err)
		req.Header.Set("Authorization", good)
		resp, err := p.client(t, &f).Do(req) //nolint:bodyclose // There is none.
		require.Error(t, err, "%v", resp)
	})
	t.Run("a server of keys that is away", func(t *testing.T) {
		away := open(t, "mtls", func(s *config.Security) { s.TokenKeys = "https://127.0.0.1:1/keys" })
		resp, text := away.ask(t, away.client(t, nil), "GET", "/who", "Bearer "+away.token(t, "prometheus"))
		require.Equal(t, 503, resp.StatusCode)
		require.Equal(t, "10", resp.Header.Get("Retry-After"))
		require.Contains(t, text, "are not known yet")
	})
}

// TestTokensWithoutClientCertificates: with mode tls a token restricts, and is demanded where the operator says so.
func TestTokensWithoutClientCertificates(t *testing.T) {
	for _, demanded := range []bool{false, true} {
		p := open(t, "tls", func(s *config.Security) {
			if demanded {
				s.TokenDoors = []string{"admin"}
			}
		})
		c := p.client(t, nil)
		resp, text := p.ask(t, c, "GET", "/who")
		if demanded {
			require.Equal(t, 401, resp.StatusCode)
		} else {
			require.Equal(t, "unknown", text)
		}
		resp, _ = p.ask(t, c, "PUT", "/api/v1/tenant_quotas", "Bearer rubbish")
		require.Equal(t, 401, resp.StatusCode)
		resp, _ = p.ask(t, c, "PUT", "/api/v1/tenant_quotas", "Bearer "+p.token(t, "prometheus"))
		require.Equal(t, 403, resp.StatusCode)
		_, text = p.ask(t, c, "GET", "/who", "Bearer "+p.token(t, "prometheus"))
		require.Equal(t, "reader/prometheus at admin", text)
	}
}

// TestAStreamEndsWithItsToken although its handler goes on.
func TestAStreamEndsWithItsToken(t *testing.T) {
	p := open(t, "mtls")
	c := p.client(t, nil)
	resp, _ := p.ask(t, c, "GET", "/who", "Bearer "+p.token(t, "prometheus")) // The keys are known from here on.
	require.Equal(t, 200, resp.StatusCode)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+p.addr+"/stream", http.NoBody)
	require.NoError(t, err)
	// It ended nearly a minute ago, and clocks may differ by a minute.
	req.Header.Set("Authorization", "Bearer "+p.key.Sign(t, p.issuer.Claims("prometheus", -55*time.Second)))
	resp, err = c.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	require.Equal(t, 200, resp.StatusCode)
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
	}
	require.Error(t, lines.Err(), "the answer is cut off")
	require.Error(t, <-p.stream)
}

// TestWithoutTokensNothingChanges: a client without a certificate is refused in the handshake, also at doors that are not HTTP.
func TestWithoutTokensNothingChanges(t *testing.T) {
	for _, door := range []config.Door{config.DoorRPC, config.DoorFollow, config.DoorOffload, config.DoorLocal, config.DoorHandshake, config.DoorAdmin} {
		p := open(t, "mtls", func(s *config.Security) {
			if door == config.DoorAdmin {
				s.Tokens, s.TokenIssuer = nil, ""
			}
		})
		raw, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
		require.NoError(t, err)
		ln, err := p.doors.Guard(raw, door)
		require.NoError(t, err)
		conn, err := (&tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}}).DialContext(t.Context(), "tcp", ln.Addr().String())
		require.NoError(t, err)
		_, err = conn.Read(make([]byte, 1))
		require.ErrorContains(t, err, "certificate required", door)
		_ = conn.Close()
		require.NoError(t, ln.Close())
	}
}

// gathered returns the counters of doors as Prometheus shows them.
func gathered(t *testing.T, d *doors.Doors) string {
	t.Helper()
	families, err := d.Gather()
	require.NoError(t, err)
	var out strings.Builder
	for _, f := range families {
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
			}
			fmt.Fprintf(&out, "%s{%s} %g\n", f.GetName(), strings.Join(labels, ","), m.GetCounter().GetValue())
		}
	}
	return out.String()
}
