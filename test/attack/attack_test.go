package attack

import (
	"crypto/tls"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/api/rpc/client"
	"github.com/mooncake-go/mooncake/core/certs"
	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/security"
	"github.com/mooncake-go/mooncake/test/internal/programs"
)

var bin string

func TestMain(m *testing.M) {
	os.Exit(programs.Main(m, func(dir string) error {
		bin = dir
		if err := os.Setenv("XDG_RUNTIME_DIR", dir); err != nil {
			return err
		}
		return programs.Build(nil, "-o", dir+"/", "./cmd/mooncake", "./plugins/evict-lru/cmd/mooncake-plugin-evict-lru")
	}))
}

// result is one line of the file that make attack writes.
type result struct {
	Mode    string `json:"mode"`
	Attack  string `json:"attack"`
	Refused bool   `json:"refused"`
	Detail  string `json:"detail"`
}

// campaign is the attacks on one pool.
type campaign struct {
	*pool
	results []result
}

func (c *campaign) note(attack string, refused bool, detail string, args ...any) {
	if !refused && c.mode == "mtls" {
		detail = "the identity may do this: " + detail
	}
	c.results = append(c.results, result{c.mode, attack, refused, fmt.Sprintf(detail, args...)})
}

// gaps are what mtls does not refuse: a client may remove the objects of its tenant and a store those of all, both may
// contribute memory. A process of a store's own user can read its memory anyway.
var gaps = []string{
	"wipe the pool by RPC (certificate of a client)",
	"wipe the pool at a store (certificate of a client)",
	"mount a segment that does not exist (certificate of a client)",
	"mount a segment that does not exist (certificate of a client of another tenant)",
	"wipe the pool by RPC (certificate of another store)",
	"mount a segment that does not exist (certificate of another store)",
	"read memory over shm as the same user, without a grant",
}

func TestAttacks(t *testing.T) {
	modes := []string{"mtls"}
	if m := os.Getenv("ATTACK_MODES"); m != "" {
		modes = strings.Split(m, ",")
	}
	var all []result
	for _, mode := range modes {
		t.Run(mode, func(t *testing.T) {
			c := &campaign{pool: start(t, mode)}
			c.knock(t)
			c.crowd(t)
			c.browsers(t)
			if mode != "off" {
				c.handshakes(t)
			}
			for _, who := range c.attackers(t) {
				c.abuse(t, who)
			}
			c.grants(t)
			if mode == "mtls" {
				c.inFlight(t) // Before there are stores without tcp.
				c.flood(t)
				c.overQUIC(t)
				c.tokens(t)
				c.overSHM(t)
				c.impostors(t)
				c.plugins(t)
			}
			all = append(all, c.results...)
			if mode == "mtls" {
				c.holds(t)
				c.told(t)
			}
		})
	}
	if out := os.Getenv("ATTACK_OUT"); out != "" {
		text, err := json.MarshalIndent(all, "", " ")
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(out, append(text, '\n'), 0o644)) //nolint:gosec // For others to read.
	}
}

// holds checks what mode mtls promises.
func (c *campaign) holds(t *testing.T) {
	t.Helper()
	var open []string
	for _, r := range c.results {
		if !r.Refused {
			open = append(open, r.Attack)
		}
		t.Log(r.Refused, r.Attack+":", r.Detail)
	}
	assert.ElementsMatch(t, gaps, open)
	for _, d := range c.doors {
		line := `refused.* door=` + d.name
		if d.name == "data" {
			line = `refused.* plugin=transport/tcp`
		}
		assert.Eventually(t, func() bool { return regexp.MustCompile(line).MatchString(c.logs[d.proc.Name].String()) }, time.Minute, 10*time.Millisecond,
			"the log of %s says what %s refused", d.proc.Name, d.name)
	}
}

// attacker is who attacks; nil tls is plaintext.
type attacker struct {
	name string
	tls  *tls.Config
	own  config.Security // of this project's client
	id   security.Identity
}

// attackers are those of the attacks on what the pool holds.
func (c *campaign) attackers(t *testing.T) []attacker {
	all := []attacker{{name: "plaintext", own: config.Security{Mode: "off"}}}
	if c.mode == "off" {
		return all
	}
	none := c.section(security.RoleClient)
	none.Mode, none.Cert, none.Key = "tls", "", ""
	all = append(all, attacker{name: "no certificate", tls: &tls.Config{InsecureSkipVerify: true}, own: none})
	if c.mode == "mtls" {
		for name, id := range map[string]security.Identity{
			"a client": {Role: security.RoleClient, Name: "mallory"}, "a client of another tenant": {Role: security.RoleClient, Tenant: "team", Name: "mallory"},
			"a reader": {Role: security.RoleReader, Name: "mallory"}, "another store": {Role: security.RoleStore, Name: "mallory"},
		} {
			id.Trust = "mooncake"
			f, err := c.dir.Issue(strings.ReplaceAll(name, " ", "-"), []string{"127.0.0.1"}, time.Hour, time.Now(), id)
			require.NoError(t, err)
			own := c.section(security.RoleClient)
			own.Cert, own.Key = f.Cert, f.Key
			all = append(all, attacker{"certificate of " + name, c.with(t, own.Cert, own.Key), own, id})
		}
	}
	return all
}

func (c *campaign) with(t *testing.T, cert, key string) *tls.Config {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(cert, key)
	require.NoError(t, err)
	return &tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{pair}}
}

// speak connects, sends bytes and returns what comes until the other side closes, or the answer is long enough.
func speak(t *testing.T, addr string, cfg *tls.Config, send []byte, enough int) ([]byte, error) {
	t.Helper()
	raw, err := new(net.Dialer).DialContext(t.Context(), "tcp", addr)
	require.NoError(t, err)
	defer raw.Close()
	_ = raw.SetDeadline(time.Now().Add(15 * time.Second))
	conn := raw
	if cfg != nil {
		conn = tls.Client(raw, cfg)
	}
	if _, err := conn.Write(send); err != nil {
		return nil, err
	}
	got := make([]byte, enough)
	n, err := io.ReadFull(conn, got)
	return got[:n], err
}

// protocols are the first bytes of what speaks at each door, and how the answer of a server begins that
// serves them.
func (c *campaign) protocols(t *testing.T, door string) map[string][2]string {
	t.Helper()
	get := [2]string{"GET /health HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", "HTTP/1.1 "}
	switch door {
	case "offload":
		return map[string][2]string{"gRPC": {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00", "\x00\x00"}}
	case "rpc":
		return map[string][2]string{
			"gRPC":                {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00", "\x00\x00"},
			"lean":                {"MCL1\x00\x00\x00\x00", "MCL1"},
			"upstream's coro_rpc": {"\x15" + strings.Repeat("\x00", 19), "\x15"},
		}
	case "handshake":
		return map[string][2]string{"handshake": {frame(1, "{}"), ""}}
	case "data":
		return map[string][2]string{"upstream's data protocol": {c.upstream(t, 0, ""), ""}}
	}
	return map[string][2]string{"HTTP": get}
}

// frame is one of the handshake.
func frame(kind byte, text string) string {
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(text)+1))
	return string(append(b, kind)) + text
}

// upstream is a request of upstream's data protocol, version 2, for the object.
func (c *campaign) upstream(t *testing.T, op byte, payload string) string {
	t.Helper()
	_, addr := c.place(t)
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(victim)))
	b = binary.LittleEndian.AppendUint64(b, addr)
	return string(append(b, op|0x80, 0, 0, 0, 0, 0, 0, 0)) + payload
}

// served reports whether an answer is that of a server that serves.
func served(got []byte, begins string) bool {
	text := string(got)
	refusal := strings.HasPrefix(text, "\x15\x03") || strings.Contains(text, "this port takes TLS only")
	return len(got) > 0 && !refusal && strings.HasPrefix(text, begins)
}

// knock attacks the doors themselves.
func (c *campaign) knock(t *testing.T) {
	t.Helper()
	long := time.Now().Add(-48 * time.Hour)
	other := certs.Folder(filepath.Join(t.TempDir(), "other"))
	_, err := other.Init("other", 365*24*time.Hour, long)
	require.NoError(t, err)
	id := security.Identity{Trust: "mooncake", Role: security.RoleClient, Name: "try"}
	issue := func(f certs.Folder, name string, at time.Time, ids ...security.Identity) *tls.Config {
		files, err := f.Issue(name, []string{"127.0.0.1"}, time.Hour, at, ids...)
		require.NoError(t, err)
		return c.with(t, files.Cert, files.Key)
	}
	reader := c.section(security.RoleClient)
	peers := map[string]*tls.Config{"plaintext": nil}
	if c.mode != "off" {
		peers["TLS without a certificate"] = &tls.Config{InsecureSkipVerify: true}
		old := c.with(t, reader.Cert, reader.Key)
		old.MinVersion, old.MaxVersion = tls.VersionTLS10, tls.VersionTLS12
		peers["TLS 1.2 or older"] = old
	}
	if c.mode == "mtls" {
		peers["an expired certificate"] = issue(c.dir, "ended", long, id)
		peers["a certificate that begins in an hour"] = issue(c.dir, "later", time.Now().Add(time.Hour), id)
		peers["a certificate of another authority"] = issue(other, "stranger", time.Now(), id)
		peers["a certificate without an identity"] = issue(c.dir, "unnamed", time.Now())
		id.Role = security.RoleReader
		peers["a certificate of the wrong role"] = issue(c.dir, "reads", time.Now(), id)
	}
	for _, d := range c.doors {
		for protocol, says := range c.protocols(t, d.name) {
			for name, cfg := range peers {
				if strings.Contains(name, "wrong role") && d.name != "data" && d.name != "handshake" {
					continue // No other door demands one.
				}
				got, err := speak(t, d.addr, cfg, []byte(says[0]), c.enough(says[1]))
				c.note(fmt.Sprintf("%s to %s of %s by %s", protocol, d.name, d.proc.Name, name), !served(got, says[1]) && !timedOut(err), "answer %q, %v", got, err)
			}
		}
		if c.mode != "off" {
			got, err := speak(t, d.addr, nil, []byte("\x16\x03\x01\x00\x20"+strings.Repeat("\xa5", 32)), 16)
			c.note(fmt.Sprintf("a garbage ClientHello to %s of %s", d.name, d.proc.Name), !served(got, "") && !timedOut(err), "answer %q, %v", got, err)
		}
	}
}

// enough is how much of an answer tells: servers that take TLS only close the connection behind a refusal.
func (c *campaign) enough(begins string) int {
	if c.mode == "off" {
		return max(len(begins), 1)
	}
	return 512
}

func timedOut(err error) bool {
	var e net.Error
	return errors.As(err, &e) && e.Timeout()
}

// crowd opens more silent connections to each door than it takes handshakes, while a good client goes on.
func (c *campaign) crowd(t *testing.T) {
	t.Helper()
	for _, d := range c.doors[:4] {
		var silent []net.Conn
		before := c.cost(t, d)
		for range 300 {
			conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", d.addr)
			require.NoError(t, err)
			silent = append(silent, conn)
		}
		c.good.CloseIdleConnections() // The good client has to get in as well.
		code, text := c.ask(t, "GET", c.admin, "/health", "")
		got := c.get(t)
		c.note("300 silent connections to "+d.name, code == http.StatusOK && got == victim, "admin answered %d %q, the object is read: %v", code, text, got == victim)
		if c.mode != "off" { // A door closes the oldest of those that say nothing.
			held := 0
			bounded := func() bool {
				held = c.cost(t, d).descriptors - before.descriptors
				return held <= mostSilent
			}
			for end := time.Now().Add(5 * time.Second); !bounded() && time.Now().Before(end); {
				time.Sleep(50 * time.Millisecond)
			}
			c.note("hold 300 silent connections to "+d.name, held <= mostSilent, "the process holds %d of them", held)
		}
		for _, conn := range silent {
			_ = conn.Close()
		}
	}
}

// browsers have a web page of another origin wipe the pool through the browser of an operator, which has the certificate.
func (c *campaign) browsers(t *testing.T) {
	t.Helper()
	for name, header := range map[string]http.Header{
		"a form":  {"Origin": {"http://evil.example"}, "Content-Type": {"application/x-www-form-urlencoded"}},
		"a fetch": {"Origin": {"http://evil.example"}, "Sec-Fetch-Site": {"cross-site"}, "Content-Type": {"application/json"}},
	} {
		code, text, err := request(t, c.good, http.MethodPost, c.scheme()+c.admin+"/api/v1/remove_all?force=true", "", header)
		c.note(name+" of a web page in the browser of an operator wipes the pool", err == nil && code == http.StatusForbidden && c.get(t) == victim, "%d %.60q, %v", code, text, err)
		c.restore(t)
	}
}

// abuse attacks what the pool holds.
func (c *campaign) abuse(t *testing.T, who attacker) {
	t.Helper()
	note := func(attack string, refused bool, detail string, args ...any) {
		t.Helper()
		c.note(attack+" ("+who.name+")", refused, detail, args...)
		c.restore(t)
	}
	scheme := "http://"
	if who.tls != nil {
		scheme = "https://"
	}
	web := &http.Client{Timeout: time.Minute, Transport: &http.Transport{TLSClientConfig: who.tls, DisableKeepAlives: true}}
	do := func(method, addr, path, body string, header http.Header) string {
		t.Helper()
		code, text, err := request(t, web, method, scheme+addr+path, body, header)
		return fmt.Sprintf("%d %.60q, %v", code, text, err)
	}
	wipe := "/api/v1/remove_all?force=true"
	for name, header := range map[string]http.Header{
		"a form of a web page":  {"Origin": {"http://evil.example"}, "Content-Type": {"application/x-www-form-urlencoded"}},
		"a fetch of a web page": {"Origin": {"http://evil.example"}, "Sec-Fetch-Site": {"cross-site"}, "Content-Type": {"application/json"}},
	} {
		said := do("POST", c.admin, wipe, "", header)
		note("wipe the pool by "+name, c.get(t) == victim, "%s", said)
	}
	said := do("POST", c.admin, wipe, "", nil)
	note("wipe the pool at the admin port", c.get(t) == victim, "%s", said)
	said = do("DELETE", c.rest[0], "/api/remove_all?force=true", "", nil)
	note("wipe the pool at a store", c.get(t) == victim && !strings.HasPrefix(said, "200"), "%s", said) // A lease may save the object.
	said = do("PUT", c.admin, "/api/v1/tenant_quotas?tenant_id=evil", `{"requested_quota_bytes":1}`, nil)
	_, quotas := c.ask(t, "GET", c.admin, "/api/v1/tenant_quotas", "")
	note("set a quota", !strings.Contains(quotas, `"evil"`), "%s", said)
	c.ask(t, "DELETE", c.admin, "/api/v1/tenant_quotas?tenant_id=evil", "")

	name, _ := c.place(t)
	kept := c.descriptor(t, name)
	key := "/metadata?key=" + url.QueryEscape("mooncake/ram/"+name)
	said = do("DELETE", c.meta, key, "", nil)
	refused := c.descriptor(t, name) == kept
	if !refused {
		c.ask(t, "PUT", c.meta, key, kept)
	}
	note("delete a descriptor", refused, "%s", said)
	c.touch(t, who, note)
	c.nativeAttacks(t, who, note)
	c.call(t, who, note)
}

type noter func(attack string, refused bool, detail string, args ...any)

// touch attacks the bytes of the object, and the handshake.
func (c *campaign) touch(t *testing.T, who attacker, note noter) {
	t.Helper()
	name, _ := c.place(t)
	for _, d := range c.doors {
		if d.name != "data" {
			continue
		}
		got, err := speak(t, d.addr, who.tls, []byte(c.upstream(t, 0, "")), 8+len(victim))
		note("read the object by upstream's protocol at "+d.proc.Name, !strings.Contains(string(got), victim), "%d bytes, %v", len(got), err)
		_, err = speak(t, d.addr, who.tls, []byte(c.upstream(t, 1, strings.Repeat("!", len(victim)))), 8)
		now := c.get(t)
		note("write the object by upstream's protocol at "+d.proc.Name, now == victim, "the object is unchanged: %v, %v", now == victim, err)
	}
	if strings.HasPrefix(who.name, "certificate") && who.id.Role != security.RoleReader {
		return // A node of the pool may ask for descriptors.
	}
	foreign := `{"name":"` + name + `","protocol":"tcp","buffers":[],"tcp_data_port":1}`
	for _, d := range c.doors {
		if d.name == "handshake" {
			got, err := speak(t, d.addr, who.tls, []byte(frame(1, foreign)), 16)
			note("a foreign descriptor at the handshake of "+d.proc.Name, !served(got, "") && !timedOut(err), "answer %q, %v", got, err)
		}
	}
}

// call attacks the master with this project's own client.
func (c *campaign) call(t *testing.T, who attacker, note noter) {
	t.Helper()
	own, err := client.Dial(c.rpc, client.Options{Timeout: 5 * time.Second, Security: who.own})
	require.NoError(t, err)
	defer own.Close()
	ctx := t.Context()
	_, err = own.RemoveAll(ctx, model.Caller{Tenant: "default"}, true)
	note("wipe the pool by RPC", c.get(t) == victim, "%v", err)

	me := who.client()
	ghost := model.Segment{ID: model.NewUUID(), Name: "127.0.0.1:9", Base: 1 << 40, Size: 64 << 20, Endpoint: "127.0.0.1:9", Protocol: "tcp"}
	err = own.MountSegment(ctx, me, ghost)
	mounted := false
	for _, s := range c.segments(t) {
		mounted = mounted || s.Name == ghost.Name
	}
	if mounted {
		require.NoError(t, own.UnmountSegment(ctx, me, ghost.ID, 0))
	}
	note("mount a segment that does not exist", !mounted, "%v", err)

	all := c.segments(t)
	require.NotEmpty(t, all)
	of, err := model.ParseUUID(all[0].Client)
	require.NoError(t, err)
	id, err := model.ParseUUID(all[0].ID)
	require.NoError(t, err)
	err = own.UnmountSegment(ctx, of, id, 0)
	there := false
	for _, s := range c.segments(t) {
		there = there || s.ID == all[0].ID
	}
	note("unmount a segment of another node", there, "%v", err)
	c.claim(t, who, own, note)
}
