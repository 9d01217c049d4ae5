package attack

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/bench/cluster"
	"github.com/mooncake-go/mooncake/internal/issuer"
	"github.com/mooncake-go/mooncake/sdk/security"
)

// bearers attacks a master that takes tokens.
type bearers struct {
	*campaign
	t      *testing.T
	issuer *issuer.Issuer
	key    issuer.Key
	admin  string
	rpc    string
	http   *http.Client // without a certificate
}

// forged is a token that must not be taken, and the reason that the audit has.
type forged struct {
	name, reason string
	header       []string
}

// tokens starts a master that takes tokens and attacks it.
func (c *campaign) tokens(t *testing.T) {
	t.Helper()
	ports, err := cluster.FreePorts(3)
	require.NoError(t, err)
	at := func(i int) string { return "127.0.0.1:" + strconv.Itoa(ports[i]) }
	b := &bearers{campaign: c, t: t, issuer: issuer.New(t), key: issuer.NewKey(t, "one"), rpc: at(0), admin: at(1)}
	b.issuer.Publish(b.key)
	b.http = &http.Client{Timeout: time.Minute, Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	c.run(t, security.RoleMaster, "tokens", "the keys of the issuer of tokens were taken up", "master", "--rpc_address", "127.0.0.1", "--rpc_port", strconv.Itoa(ports[0]),
		"--metrics_host", "127.0.0.1", "--metrics_port", strconv.Itoa(ports[1]), "--enable_http_metadata_server", "--http_metadata_server_host", "127.0.0.1",
		"--http_metadata_server_port", strconv.Itoa(ports[2]), "--noenable_metric_reporting",
		"--security_tokens", "operator=admin,operator/team/jobs=team,reader=reader", "--security_token_issuer", b.issuer.URL, "--security_token_audience", issuer.Audience,
		"--security_token_keys_ca", b.issuer.CA)
	require.Equal(t, http.StatusOK, b.wipe(t, b.http, b.good("admin")), "an operator may")
	forgeries := b.forgeries(t)
	for _, f := range forgeries {
		code := b.wipe(t, b.http, f.header)
		c.note("wipe the pool with "+f.name, code >= 400 && code < 500, "status %d", code)
		code, _, err := request(t, b.http, "DELETE", "https://"+at(2)+"/metadata?key=mooncake/ram/a", "", http.Header{"Authorization": f.header})
		require.NoError(t, err)
		c.note("delete a descriptor with "+f.name, code >= 400 && code < 500, "status %d", code)
	}
	b.rights(t)
	b.audited(t, forgeries)
}

// good returns the header of a good token.
func (b *bearers) good(sub string) []string {
	return []string{"Bearer " + b.key.Sign(b.t, b.issuer.Claims(sub, time.Hour))}
}

func (b *bearers) wipe(t *testing.T, c *http.Client, header []string) int {
	t.Helper()
	code, _, err := request(t, c, "POST", "https://"+b.admin+"/api/v1/remove_all?force=true", "", http.Header{"Authorization": header})
	require.NoError(t, err)
	return code
}

func (b *bearers) forgeries(t *testing.T) []forged {
	t.Helper()
	with := func(change func(*jwt.Claims)) []string {
		claims := b.issuer.Claims("admin", time.Hour)
		change(&claims)
		return []string{"Bearer " + b.key.Sign(t, claims)}
	}
	good := b.good("admin")[0]
	part := strings.Split(strings.TrimPrefix(good, "Bearer "), ".")
	public, err := x509.MarshalPKIXPublicKey(b.key.Private.Public())
	require.NoError(t, err)
	claims := b.issuer.Claims("admin", time.Hour)
	later := jwt.NewNumericDate(time.Now().Add(time.Hour))
	return []forged{
		{"no token", "missing", nil},
		{"another scheme", "missing", []string{"Basic YWRtaW46YWRtaW4="}},
		{"a token of another audience", "audience", with(func(c *jwt.Claims) { c.Audience = jwt.Audience{"https://kubernetes.default.svc"} })},
		{"a token of another issuer", "issuer", with(func(c *jwt.Claims) { c.Issuer = "https://evil.example" })},
		{"a token by another key", "signature", []string{"Bearer " + issuer.NewKey(t, "one").Sign(t, claims)}},
		{"a token of an unknown key", "key", []string{"Bearer " + issuer.NewKey(t, "two").Sign(t, claims)}},
		{"an unsigned token (alg none)", "algorithm", []string{"Bearer " + base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none"}`)) + "." + part[1] + "."}},
		{"a token by HS256 with the public key", "algorithm", []string{"Bearer " + issuer.Sign(t, jose.SigningKey{Algorithm: jose.HS256, Key: public}, "one", claims)}},
		{"a token without its signature", "signature", []string{"Bearer " + part[0] + "." + part[1] + "."}},
		{"an expired token", "expired", with(func(c *jwt.Claims) { c.Expiry = jwt.NewNumericDate(time.Now().Add(-time.Hour)) })},
		{"a token without an end", "expired", with(func(c *jwt.Claims) { c.Expiry = nil })},
		{"a token that does not begin yet", "early", with(func(c *jwt.Claims) { c.NotBefore = later })},
		{"a token of an unknown subject", "unmapped", with(func(c *jwt.Claims) { c.Subject = "admin2" })},
		{"a token of 9 kB", "malformed", []string{"Bearer " + strings.Repeat("a", 9000)}},
		{"two tokens", "twice", []string{good, good}},
		{"two tokens in one header", "malformed", []string{good + ", " + good}},
	}
}

// rights tries what a good token does not allow.
func (b *bearers) rights(t *testing.T) {
	t.Helper()
	code := b.wipe(t, b.http, b.good("reader"))
	b.note("wipe the pool with the token of a reader", code == http.StatusForbidden, "status %d", code)
	for _, path := range []string{"/api/v1/keys?tenant_id=default", "/api/v1/tenant_quotas?tenant_id=default"} {
		method := http.MethodGet
		if strings.Contains(path, "quotas") {
			method = http.MethodPut
		}
		code, text, err := request(t, b.http, method, "https://"+b.admin+path, `{"requested_quota_bytes":1}`, http.Header{"Authorization": b.good("team")})
		require.NoError(t, err)
		b.note(method+" "+path+" with the token of another tenant", code == http.StatusForbidden, "status %d, %s", code, text)
	}
	f, _ := b.dir.Node(string(security.RoleClient))
	pair, err := tls.LoadX509KeyPair(f.Cert, f.Key)
	require.NoError(t, err)
	both := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{pair}}}}
	defer both.CloseIdleConnections()
	code = b.wipe(t, both, b.good("admin"))
	b.note("wipe the pool with the certificate of a client and the token of an operator", code == http.StatusBadRequest, "status %d", code)
	_, _, err = request(t, b.http, "POST", "https://"+b.rpc+"/mooncake.master.v1.MasterService/RemoveAll", "", http.Header{"Authorization": b.good("admin")})
	b.note("call the RPC port with the token of an operator", err != nil, "%v", err)
}

// audited checks that each refusal is in the audit, and no token.
func (b *bearers) audited(t *testing.T, forgeries []forged) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(b.audit, "tokens.json"))
	require.NoError(t, err)
	seen := map[[3]string]bool{}
	for l := range strings.Lines(string(text)) {
		var x struct{ Who, Call, Result, Door, Reason string }
		require.NoError(t, json.Unmarshal([]byte(l), &x), l)
		if x.Result == "refused" {
			seen[[3]string{x.Who, x.Door, x.Reason}] = true
		}
	}
	for _, f := range forgeries {
		for _, door := range []string{"admin", "metadata"} {
			assert.True(t, seen[[3]string{"unidentified", door, f.reason}], "the audit has no line for %s at %s", f.name, door)
		}
		for _, h := range f.header {
			assert.NotContains(t, string(text)+b.logs["tokens"].String(), h)
		}
	}
	for _, who := range []string{"reader/reader", "operator/team/jobs"} {
		assert.True(t, seen[[3]string{who, "admin", ""}], "the audit has no line for %s", who)
	}
}
