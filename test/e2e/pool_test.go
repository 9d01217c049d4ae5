package e2e

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/bench/cluster"
	"github.com/mooncake-go/mooncake/sdk/security"
	"github.com/mooncake-go/mooncake/test/internal/programs"
)

// pool is a master with embedded metadata and some stores.
type pool struct {
	rpc, admin, meta string
	master           *cluster.Proc
	masterArgs       []string
	stores           []*cluster.Proc
	secure           *cluster.Certificates // what all processes prove who they are with, nil in plaintext
}

func start(t *testing.T, name, program string, args ...string) *cluster.Proc {
	t.Helper()
	return startIn(t, programs.Environ(), name, program, args...)
}

func startIn(t *testing.T, env []string, name, program string, args ...string) *cluster.Proc {
	t.Helper()
	p, err := cluster.Start(cluster.Spec{Name: name, Program: filepath.Join(bin, program), Args: args, Env: env})
	require.NoError(t, err)
	t.Cleanup(func() {
		p.Kill()
		if t.Failed() {
			t.Logf("last lines of %s:\n%s", name, p.Tail())
		}
	})
	return p
}

// killable is for pools whose stores are killed. The master gives a killed store up soon, but not
// one that stops for a moment on a busy machine. In other pools the master waits longer than any
// test does.
var killable = []string{"--client_ttl", "5s"}

// says waits until a process has logged a text; the log is read in the background.
func says(t *testing.T, p *cluster.Proc, text string) {
	t.Helper()
	require.Eventually(t, func() bool { return strings.Contains(p.Tail(), text) }, 30*time.Second, time.Millisecond, "%s says %q", p.Name, text)
}

func startPool(t *testing.T, stores int, masterFlags ...string) *pool {
	t.Helper()
	return startPoolIn(t, "off", stores, masterFlags...)
}

// startPoolIn is startPool in a security mode.
func startPoolIn(t *testing.T, mode string, stores int, masterFlags ...string) *pool {
	t.Helper()
	ports, err := cluster.FreePorts(3)
	require.NoError(t, err)
	at := func(i int) string { return fmt.Sprintf("127.0.0.1:%d", ports[i]) }
	p := &pool{rpc: at(0), admin: at(1), meta: "http://" + at(2) + "/metadata"}
	if cluster.Secure(mode) {
		p.secure, err = cluster.MakeCertificates(t.TempDir(), mode)
		require.NoError(t, err)
	}
	p.masterArgs = append([]string{
		"master", "--rpc_address", "127.0.0.1", "--rpc_port", fmt.Sprint(ports[0]),
		"--metrics_host", "127.0.0.1", "--metrics_port", fmt.Sprint(ports[1]),
		"--enable_http_metadata_server", "--http_metadata_server_host", "127.0.0.1", "--http_metadata_server_port", fmt.Sprint(ports[2]),
		"--lease_ttl", "200ms", "--client_ttl", "1m",
	}, masterFlags...)
	p.startMaster(t)
	for range stores {
		p.startStore(t)
	}
	p.waitMounted(t, stores)
	return p
}

func (p *pool) startMaster(t *testing.T) {
	t.Helper()
	p.master = startIn(t, p.secure.Environ(programs.Environ(), security.RoleMaster), "master", "mooncake", p.masterArgs...)
	require.NoError(t, cluster.Poll(p.master, 30*time.Second, func() error {
		_, err := p.get(t, "/health")
		return err
	}))
}

// startStore starts one more store and does not wait for it.
func (p *pool) startStore(t *testing.T) {
	t.Helper()
	p.stores = append(p.stores, startIn(t, p.secure.Environ(programs.Environ(), security.RoleStore), fmt.Sprintf("store-%d", len(p.stores)+1), "mooncake",
		"store", "--master_server_address", p.rpc, "--metadata_server", p.meta, "--local_hostname", "127.0.0.1", "--global_segment_size", "32MiB", "--keep", "off"))
}

func (p *pool) waitMounted(t *testing.T, n int) {
	t.Helper()
	require.NoError(t, cluster.Poll(p.master, 30*time.Second, func() error {
		text, err := p.get(t, "/get_all_segments")
		if have := len(strings.Fields(text)); err == nil && have != n {
			err = fmt.Errorf("%d of %d segments are mounted", have, n)
		}
		return err
	}))
}

// get asks the admin port.
func (p *pool) get(t *testing.T, path string) (string, error) {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.admin+path, nil)
	if err != nil {
		return "", err
	}
	web := p.secure.Admin()
	defer web.CloseIdleConnections()
	resp, err := web.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", path, resp.Status)
	}
	return string(body), err
}

func (p *pool) client(t *testing.T, stdin string, args ...string) programs.Result {
	t.Helper()
	return program(t, "mooncake", p.secure.Environ(nil, security.RoleClient), stdin, append(append([]string{"client"}, args...),
		"--master_server_address", p.rpc, "--metadata_server", p.meta, "--local_hostname", "127.0.0.1")...)
}

// operate runs a verb of admin as an operator.
func (p *pool) operate(t *testing.T, args ...string) programs.Result {
	t.Helper()
	return program(t, "mooncake", p.secure.Environ(nil, security.RoleOperator), "", append(append([]string{"admin"}, args...),
		"--master", p.rpc, "--metrics_port", port(t, p.admin))...)
}

func (p *pool) mustPutGet(t *testing.T, key string) {
	t.Helper()
	value := strings.Repeat(key+"\n", 1000)
	r := p.client(t, value, "put", key)
	require.Equal(t, 0, r.Code, r.Stderr)
	r = p.client(t, "", "get", key)
	require.Equal(t, 0, r.Code, r.Stderr)
	assert.Equal(t, value, r.Stdout)
}

// ports returns the TCP ports on which the pool's processes listen.
func (p *pool) ports(t *testing.T) []int {
	t.Helper()
	var out []int
	for _, proc := range append([]*cluster.Proc{p.master}, p.stores...) {
		out = append(out, listening(t, proc.PID())...)
	}
	return out
}

// listening reads the listening TCP ports of a process from /proc.
func listening(t *testing.T, pid int) []int {
	t.Helper()
	inodes := map[string]bool{}
	fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	require.NoError(t, err)
	for _, fd := range fds {
		link, _ := os.Readlink(fmt.Sprintf("/proc/%d/fd/%s", pid, fd.Name()))
		if inode, ok := strings.CutPrefix(link, "socket:["); ok {
			inodes[strings.TrimSuffix(inode, "]")] = true
		}
	}
	var ports []int
	for _, table := range []string{"tcp", "tcp6"} {
		f, err := os.Open(fmt.Sprintf("/proc/%d/net/%s", pid, table))
		require.NoError(t, err)
		lines := bufio.NewScanner(f)
		for lines.Scan() {
			field := strings.Fields(lines.Text())
			if len(field) < 10 || field[3] != "0A" || !inodes[field[9]] {
				continue
			}
			_, hex, _ := strings.Cut(field[1], ":")
			if port, err := strconv.ParseUint(hex, 16, 16); err == nil {
				ports = append(ports, int(port))
			}
		}
		f.Close()
	}
	return ports
}
