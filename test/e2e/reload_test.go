package e2e

import (
	"bufio"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// ownPool is a pool whose plugins all run as processes of their own.
func ownPool(t *testing.T, stores int) *pool {
	t.Helper()
	conf := configured(t, own())
	p := startPool(t, 0, "--config", conf)
	for i := range stores {
		p.stores = append(p.stores, start(t, fmt.Sprintf("store-%d", i+1), "mooncake", "store", "--config", conf, "--master_server_address", p.rpc,
			"--metadata_server", p.meta, "--local_hostname", "127.0.0.1", "--global_segment_size", "8MiB", "--protocol", "tcp", "--transports", "tcp"))
	}
	p.waitMounted(t, stores)
	return p
}

// TestReloadUnderLoad exchanges every plugin of a pool while objects are put, got and evicted.
// Nothing fails, no byte is wrong, and the new processes are as closed to strangers as the old
// ones.
func TestReloadUnderLoad(t *testing.T) {
	p := ownPool(t, 2)
	l := startLoad(t, p)
	kept := startKept(t, l, 12)
	l.goOn(t, p, 200) // More than the pool holds: evictions go on from here.
	for _, id := range []string{"transport/tcp", "evict/lru", "alloc/arena"} {
		r := mooncake(t, "plugins", "reload", id, "-o", "json")
		require.Equal(t, 0, r.Code, "%s: %s", id, r.Stderr)
		var results []struct {
			Process       struct{ PID int }
			Before, After struct {
				PID, Restarts int
				State, SHA256 string
			}
		}
		require.NoError(t, json.Unmarshal([]byte(r.Stdout), &results))
		hosts := map[int]bool{}
		for _, x := range results {
			hosts[x.Process.PID] = true
			assert.NotEqual(t, x.Before.PID, x.After.PID, id)
			assert.Equal(t, "ok", x.After.State, id)
			assert.Len(t, x.After.SHA256, 64, id)
			gone(t, x.Before.PID, "the process that was exchanged")
			strangersAreRefused(t, x.After.PID)
		}
		if id == "transport/tcp" {
			assert.Equal(t, map[int]bool{p.stores[0].PID(): true, p.stores[1].PID(): true, os.Getpid(): true}, hosts, "in every process that has it")
		} else {
			assert.Equal(t, map[int]bool{p.master.PID(): true}, hosts)
		}
		l.goOn(t, p, 100)
		kept.allThere(t)
	}
	l.halt()
	failed, wrong := l.failures()
	assert.Empty(t, failed)
	assert.Zero(t, wrong)
}

// strangersAreRefused checks that the control socket of a plugin's process talks to its host only.
// A program without TLS, or without the host's certificate, gets no answer.
func strangersAreRefused(t *testing.T, pid int) {
	t.Helper()
	path := listeningAt(t, pid)
	plain, err := net.Dial("unix", path)
	require.NoError(t, err)
	defer plain.Close()
	preface := []byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00")
	// settings is what a gRPC server says first.
	settings := func(b []byte) bool { return len(b) >= 4 && b[3] == 4 && b[0] == 0 }
	read := func(c net.Conn) []byte {
		require.NoError(t, c.SetDeadline(time.Now().Add(time.Minute)))
		_, _ = c.Write(preface)
		buf := make([]byte, 64)
		n, _ := c.Read(buf)
		return buf[:n]
	}
	assert.False(t, settings(read(plain)), "it talks without TLS")
	conn, err := net.Dial("unix", path)
	require.NoError(t, err)
	defer conn.Close()
	assert.False(t, settings(read(tls.Client(conn, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}}))), "it talks to anybody") //nolint:gosec // a stranger does not care whom he talks to
}

// listeningAt finds the unix socket on which a process listens.
func listeningAt(t *testing.T, pid int) string {
	t.Helper()
	mine := map[string]bool{}
	fds, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	require.NoError(t, err)
	for _, fd := range fds {
		if link, err := os.Readlink(fd); err == nil && strings.HasPrefix(link, "socket:[") {
			mine[strings.Trim(strings.TrimPrefix(link, "socket:"), "[]")] = true
		}
	}
	table, err := os.Open(fmt.Sprintf("/proc/%d/net/unix", pid))
	require.NoError(t, err)
	defer table.Close()
	for lines := bufio.NewScanner(table); lines.Scan(); {
		// Num RefCount Protocol Flags Type St Inode Path; the flag 00010000 is one that listens.
		if f := strings.Fields(lines.Text()); len(f) == 8 && f[3] == "00010000" && mine[f[6]] {
			return f[7]
		}
	}
	t.Fatalf("process %d listens on no unix socket", pid)
	return ""
}

// TestKilledTransportLosesNothing kills the transport's process of a client repeatedly under load.
// No put fails, even if the process had accepted its bytes: the client repeats such a put in other
// memory. Then the test kills the process of the store: the objects that were put are still there,
// and operations that begin after the restart succeed.
func TestKilledTransportLosesNothing(t *testing.T) {
	p := ownPool(t, 1)
	l := startLoad(t, p)
	l.goOn(t, p, 20)
	kept := startKept(t, l, 12)
	for range 3 {
		killTransport(t, os.Getpid())
		l.goOn(t, p, 20)
		kept.readable(t)
	}
	l.halt()
	assert.Empty(t, l.failedPuts(), "puts failed")
	killTransport(t, p.stores[0].PID())
	kept.readable(t)
	_, wrong := l.failures()
	assert.Zero(t, wrong)
}

// killTransport kills the process that moves a host's bytes, and waits for its successor.
func killTransport(t *testing.T, host int) {
	t.Helper()
	before, err := inUse(t, host)
	require.NoError(t, err)
	old := before["transport/tcp"]
	require.NotZero(t, old.PID)
	require.NoError(t, syscall.Kill(old.PID, syscall.SIGKILL))
	gone(t, old.PID, "the process that was killed")
	require.Eventually(t, func() bool {
		now, err := inUse(t, host)
		return err == nil && well(now["transport/tcp"]) && now["transport/tcp"].PID != old.PID && now["transport/tcp"].Restarts > old.Restarts
	}, 90*time.Second, 20*time.Millisecond)
}

// TestKilledHostTakesItsPluginsAlong kills a host under load. Its plugins end, also the processes
// of a transport.
func TestKilledHostTakesItsPluginsAlong(t *testing.T) {
	p := ownPool(t, 1)
	l := startLoad(t, p)
	l.goOn(t, p, 10)
	transport := pluginOf(t, p.stores[0].PID(), "mooncake-plugin-transport-tcp")
	policy := pluginOf(t, p.master.PID(), "mooncake-plugin-evict-lru")
	p.stores[0].Kill()
	gone(t, transport, "the store's transport")
	p.master.Kill()
	gone(t, policy, "the master's policy")
}

// kept holds objects that the pool must not lose.
type kept struct {
	l     *load
	first int64
	n     int64
}

// startKept puts n objects that must not be evicted, far from those of the load.
func startKept(t *testing.T, l *load, n int64) kept {
	t.Helper()
	k := kept{l, 1 << 20, n}
	for i := range n {
		l.round(t.Context(), k.first+i, true)
	}
	failed, _ := l.failures()
	require.Empty(t, failed)
	return k
}

// allThere reads each object once.
func (k kept) allThere(t *testing.T) {
	t.Helper()
	for i := range k.n {
		assert.NoError(t, k.l.check(t.Context(), k.first+i, k.l.content(k.first+i)))
	}
}

// readable waits until each object can be read. Wrong bytes are an error at once.
func (k kept) readable(t *testing.T) {
	t.Helper()
	for i := range k.n {
		var last error
		require.Eventually(t, func() bool {
			last = k.l.check(t.Context(), k.first+i, k.l.content(k.first+i))
			return last == nil
		}, 2*time.Minute, 20*time.Millisecond, "%v", &last)
	}
}
