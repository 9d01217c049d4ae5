package wheels

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/bench/cluster"
	"github.com/mooncake-go/mooncake/test/internal/programs"
)

// lease is how long a read protects an object.
const lease = 3 * time.Second

// master is a running master: ours, or as a control the one of a version's wheel.
type master struct {
	rpc, admin string
	spec       cluster.Spec
	proc       *cluster.Proc
}

// startMaster starts the one that the environment selects, with flags that both have.
func startMaster(t testing.TB, version string, flags ...string) *master {
	t.Helper()
	return startMasterOf(t, version, control, lease, flags...)
}

// startMasterOf starts ours, or upstream's of a version.
func startMasterOf(t testing.TB, version string, upstreams bool, lease time.Duration, flags ...string) *master {
	t.Helper()
	ports, err := cluster.FreePorts(2)
	require.NoError(t, err)
	m := &master{rpc: net.JoinHostPort("127.0.0.1", strconv.Itoa(ports[0])), admin: net.JoinHostPort("127.0.0.1", strconv.Itoa(ports[1]))}
	m.spec = cluster.Spec{Name: "master", Program: filepath.Join(bin, "mooncake"), Args: []string{"master", "--metrics_host=127.0.0.1"}, Env: programs.Environ()}
	if upstreams {
		found, _ := filepath.Glob(filepath.Join(environment(version), "lib", "python*", "site-packages", "mooncake", "mooncake_master"))
		require.Len(t, found, 1, "the wheel %s has a master", version)
		m.spec = cluster.Spec{Name: "upstream's master " + version, Program: found[0], Env: environ(version)}
	}
	m.spec.Args = slices.Concat(m.spec.Args, []string{
		"--rpc_address=127.0.0.1", "--rpc_port=" + strconv.Itoa(ports[0]), "--metrics_port=" + strconv.Itoa(ports[1]),
		"--default_kv_lease_ttl=" + strconv.Itoa(int(lease.Milliseconds())),
	}, flags)
	m.start(t)
	return m
}

// start starts it, at the same ports as before.
func (m *master) start(t testing.TB) {
	t.Helper()
	var err error
	m.proc, err = cluster.Start(m.spec)
	require.NoError(t, err)
	p := m.proc
	t.Cleanup(func() {
		p.Kill()
		if t.Failed() {
			t.Logf("last lines of %s:\n%s", p.Name, p.Tail())
		}
	})
	require.NoError(t, cluster.Poll(p, patience, func() error {
		if _, err := m.ask(t.Context(), "/get_all_segments"); err != nil {
			return err
		}
		conn, err := net.Dial("tcp", m.rpc)
		if err != nil {
			return err
		}
		return conn.Close()
	}))
}

func (m *master) ask(ctx context.Context, path string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+m.admin+path, http.NoBody)
	if err != nil {
		return "", err
	}
	resp, err := (&http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("GET %s: %s: %s", path, resp.Status, body)
	}
	return string(body), err
}

// segments are the names of the segments of the pool, sorted.
func (m *master) segments(t testing.TB) []string {
	t.Helper()
	body, err := m.ask(t.Context(), "/get_all_segments")
	require.NoError(t, err)
	names := strings.Fields(body)
	slices.Sort(names)
	return names
}

// space is the bytes used of the segments of a name, and all that there are.
func (m *master) space(t testing.TB, name string) (used, capacity int) {
	t.Helper()
	body, err := m.ask(t.Context(), "/query_segment?segment="+name)
	require.NoError(t, err)
	_, text, _ := strings.Cut(body, "\n")
	_, err = fmt.Sscanf(text, "Used(bytes): %d\nCapacity(bytes) : %d", &used, &capacity)
	require.NoError(t, err, "%q", body)
	return used, capacity
}

// used is the bytes used of the whole pool.
func (m *master) used(t testing.TB) int {
	t.Helper()
	all := 0
	for _, name := range m.segments(t) {
		used, _ := m.space(t, name)
		all += used
	}
	return all
}

// until waits for a condition.
func until(t testing.TB, what string, ready func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ready(); time.Sleep(20 * time.Millisecond) {
		require.True(t, time.Now().Before(end), "waited %s for: %s", patience, what)
	}
}

// startStore starts a store node of ours.
func startStore(t testing.TB, m *master) {
	t.Helper()
	before := len(m.segments(t))
	args := []string{"store", "--master_server_address", m.rpc, "--local_hostname", "127.0.0.1", "--global_segment_size", strconv.Itoa(segment), "--keep", "off"}
	if onDevices {
		args = append(args, "--protocol", "rdma", "--device_names", ourDevice, "--shared_memory", "off")
	}
	p, err := cluster.Start(cluster.Spec{
		Name: "store", Program: filepath.Join(bin, "mooncake"), Env: programs.Environ("MC_TCP_BIND_ADDRESS=127.0.0.1"), Args: args,
	})
	require.NoError(t, err)
	t.Cleanup(func() {
		p.Kill()
		if t.Failed() {
			t.Logf("last lines of %s:\n%s", p.Name, p.Tail())
		}
	})
	require.NoError(t, cluster.Poll(p, patience, func() error {
		if len(m.segments(t)) != before+1 {
			return fmt.Errorf("its memory is not mounted")
		}
		return nil
	}))
}

// oursPut puts an object with our program.
func oursPut(t testing.TB, m *master, o object) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "value")
	require.NoError(t, os.WriteFile(file, o.content(), 0o600))
	programs.Must(t, programs.Spec{
		Program: filepath.Join(bin, "mooncake"), Args: []string{"client", "put", o.key, "--file", file, "--master", m.rpc, "--local_hostname", "127.0.0.1"},
	})
}

// oursGet gets an object with our program, nil where that fails.
func oursGet(t testing.TB, m *master, o object) *value {
	t.Helper()
	r := programs.Run(t, programs.Spec{
		Program: filepath.Join(bin, "mooncake"), Args: []string{"client", "get", o.key, "--master", m.rpc, "--local_hostname", "127.0.0.1"},
	})
	if r.Code != 0 {
		t.Logf("our program gets %s: exit code %d: %s", o.key, r.Code, r.Stderr)
		return nil
	}
	return digest([]byte(r.Stdout))
}
