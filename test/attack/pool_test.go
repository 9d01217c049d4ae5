package attack

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/bench/cluster"
	"github.com/mooncake-go/mooncake/core/certs"
	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/sdk/security"
	"github.com/mooncake-go/mooncake/test/internal/programs"
)

// victim is the object that the attacks are about.
const victim = "the bytes of an object that only its pool may read or change"

// pool is a master with a metadata service and two stores.
type pool struct {
	mode  string
	dir   certs.Folder
	procs []*cluster.Proc // the master first
	rpc   string
	admin string
	meta  string
	rest  []string // of the stores
	doors []door
	logs  map[string]*transcript // of the processes, by name
	good  *http.Client           // an operator
	audit string                 // the folder with the audit of each process
}

// door is one open port.
type door struct {
	name, addr string
	proc       *cluster.Proc
}

// transcript is all that a process has logged.
type transcript struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *transcript) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *transcript) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// section is what a process with the certificate of a role is configured with.
func (p *pool) section(role security.Role) config.Security {
	if p.mode == "off" {
		return config.Security{Mode: "off"}
	}
	f, _ := p.dir.Node(string(role))
	return config.Security{Mode: p.mode, CA: p.dir.Authority().Cert, Cert: f.Cert, Key: f.Key}
}

func (p *pool) run(t *testing.T, role security.Role, name, ready string, args ...string) {
	t.Helper()
	s := p.section(role)
	args = append(args, "--security_mode", s.Mode, "--security_audit", filepath.Join(p.audit, name+".json"))
	if s.On() {
		args = append(args, "--security_ca", s.CA, "--security_cert", s.Cert, "--security_key", s.Key, "--security_look_every", "200ms")
	}
	p.logs[name] = &transcript{}
	proc, err := cluster.Start(cluster.Spec{Log: p.logs[name], Name: name, Program: filepath.Join(bin, "mooncake"), Args: args, Env: programs.Environ()})
	require.NoError(t, err)
	t.Cleanup(func() {
		proc.Kill()
		if t.Failed() {
			t.Logf("last lines of %s:\n%s", name, proc.Tail())
		}
	})
	require.NoError(t, cluster.Poll(proc, time.Minute, func() error {
		if !strings.Contains(proc.Tail(), ready) {
			return fmt.Errorf("%s has not said %q", name, ready)
		}
		return nil
	}))
	p.procs = append(p.procs, proc)
}

func start(t *testing.T, mode string) *pool {
	t.Helper()
	ports, err := cluster.FreePorts(9)
	require.NoError(t, err)
	at := func(i int) string { return fmt.Sprintf("127.0.0.1:%d", ports[i]) }
	p := &pool{mode: mode, logs: map[string]*transcript{}, dir: certs.Folder(filepath.Join(t.TempDir(), "pki")), rpc: at(0), admin: at(1), meta: at(2), audit: t.TempDir()}
	_, err = p.dir.Try("mooncake", nil, 24*time.Hour, time.Now())
	require.NoError(t, err)
	p.good = &http.Client{Timeout: time.Minute, Transport: &http.Transport{}}
	if s := p.section(security.RoleOperator); s.On() {
		pair, err := tls.LoadX509KeyPair(s.Cert, s.Key)
		require.NoError(t, err)
		p.good.Transport = &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{pair}}}
	}
	quotas := filepath.Join(t.TempDir(), "quotas.yaml")
	require.NoError(t, os.WriteFile(quotas, []byte("version: 1\ntenants: []\n"), 0o600))
	p.run(t, security.RoleMaster, "master", "master is serving", "master", "--rpc_address", "127.0.0.1", "--rpc_port", strconv.Itoa(ports[0]),
		"--metrics_host", "127.0.0.1", "--metrics_port", strconv.Itoa(ports[1]), "--enable_http_metadata_server", "--http_metadata_server_host", "127.0.0.1",
		"--http_metadata_server_port", strconv.Itoa(ports[2]), "--client_ttl", "1m", "--noenable_metric_reporting", "--enable_offload", "--enable_multi_tenants", "--tenant_quota_connector_uri", quotas)
	m := p.procs[0]
	p.doors = []door{{"rpc", p.rpc, m}, {"admin", p.admin, m}, {"metadata", p.meta, m}}
	for i := range 2 {
		p.run(t, security.RoleStore, fmt.Sprint("store", i), "store service is serving", "store", "--master_server_address", p.rpc,
			"--metadata_server", "http://"+p.meta+"/metadata", "--local_hostname", "127.0.0.1", "--global_segment_size", "32MiB", "--keep", "off", "--transports", "tcp",
			"--enable_offload", "--ssd_offload_path", t.TempDir(), "--offload_buffer_size", "1MiB", "--offload_size_limit", "64MiB", "--offload_port", strconv.Itoa(ports[7+i]),
			"--rest_host", "127.0.0.1", "--port", strconv.Itoa(ports[3+i]), "--enable_http_server", "--http_port", strconv.Itoa(ports[5+i]))
		s := p.procs[1+i]
		data := regexp.MustCompile(`plugin=transport/tcp address=(\S+)`).FindStringSubmatch(s.Tail())
		require.NotNil(t, data, s.Tail())
		p.rest = append(p.rest, at(3+i))
		p.doors = append(p.doors, door{"rest", at(3 + i), s}, door{"health", at(5 + i), s}, door{"data", data[1], s}, door{"offload", at(7 + i), s})
	}
	for _, s := range p.segments(t) {
		var where struct {
			Host string `json:"ip_or_host_name"`
			Port int    `json:"rpc_port"`
		}
		_, text := p.ask(t, "GET", p.meta, "/metadata?key=mooncake/rpc_meta/"+s.Name, "")
		require.NoError(t, json.Unmarshal([]byte(text), &where), text)
		p.doors = append(p.doors, door{"handshake", net.JoinHostPort(where.Host, strconv.Itoa(where.Port)), p.of(s.Name)})
	}
	for _, tenant := range []string{"default", "team"} {
		code, text := p.ask(t, "PUT", p.admin, "/api/v1/tenant_quotas?tenant_id="+tenant, `{"requested_quota_bytes":33554432}`)
		require.Equal(t, http.StatusOK, code, text)
	}
	p.put(t)
	return p
}

// of returns the store that mounted a segment.
func (p *pool) of(segment string) *cluster.Proc {
	if strings.Contains(p.procs[1].Tail(), "name="+segment+" ") {
		return p.procs[1]
	}
	return p.procs[2]
}

func (p *pool) scheme() string {
	if p.mode == "off" {
		return "http://"
	}
	return "https://"
}

// ask is a request of the operator.
func (p *pool) ask(t *testing.T, method, addr, path, body string) (int, string) {
	t.Helper()
	code, text, err := request(t, p.good, method, p.scheme()+addr+path, body, nil)
	require.NoError(t, err)
	return code, text
}

func request(t *testing.T, c *http.Client, method, u, body string, header http.Header) (int, string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, u, bytes.NewBufferString(body))
	require.NoError(t, err)
	for k, v := range header {
		req.Header[k] = v
	}
	resp, err := c.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text), err
}

func (p *pool) put(t *testing.T) {
	t.Helper()
	body, err := json.Marshal(map[string]string{"key": "victim", "value": victim})
	require.NoError(t, err)
	code, text := p.ask(t, "PUT", p.rest[0], "/api/put", string(body))
	require.Equal(t, http.StatusOK, code, text)
	require.Equal(t, victim, p.get(t))
}

// get returns the object, empty where there is none.
func (p *pool) get(t *testing.T) string {
	t.Helper()
	code, text := p.ask(t, "GET", p.rest[1], "/api/get/victim", "")
	if code != http.StatusOK {
		return ""
	}
	return text
}

// restore puts the object again where an attack removed or changed it.
func (p *pool) restore(t *testing.T) {
	t.Helper()
	if p.get(t) != victim {
		p.ask(t, "POST", p.admin, "/api/v1/remove_all?force=true", "")
		p.put(t)
	}
}

type segment struct {
	Name     string `json:"name"`
	ID       string `json:"id"`
	Client   string `json:"client_id"`
	Base     string `json:"base_address"`
	Protocol string `json:"protocol"`
}

func (p *pool) segments(t *testing.T) []segment {
	t.Helper()
	_, text := p.ask(t, "GET", p.admin, "/api/v1/segments", "")
	var out struct{ Data []segment }
	require.NoError(t, json.Unmarshal([]byte(text), &out), text)
	return slices.DeleteFunc(out.Data, func(s segment) bool { return s.Protocol != "tcp" }) // Storage tiers are others.
}

// place returns where the object lies: the name of the segment, and the address.
func (p *pool) place(t *testing.T) (string, uint64) {
	t.Helper()
	_, text := p.ask(t, "GET", p.admin, "/query_key?lease=false&key=victim", "")
	var out struct {
		Data []struct {
			Addr uint64 `json:"buffer_address_"`
			Name string `json:"transport_endpoint_"`
		}
	}
	require.NoError(t, json.Unmarshal([]byte(text), &out), text)
	require.NotEmpty(t, out.Data, text)
	return out.Data[0].Name, out.Data[0].Addr
}

func (p *pool) descriptor(t *testing.T, name string) string {
	t.Helper()
	_, text := p.ask(t, "GET", p.meta, "/metadata?key="+url.QueryEscape("mooncake/ram/"+name), "")
	return text
}
