package e2e

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/mooncake-go/mooncake/core/bench/cluster"
	unixmsg "github.com/mooncake-go/mooncake/sdk/x/shm"
	"github.com/mooncake-go/mooncake/test/internal/programs"
)

// keptStore starts a store of a pool that keeps its memory.
func (p *pool) keptStore(t *testing.T, flags ...string) *cluster.Proc {
	t.Helper()
	return start(t, "store", "mooncake", p.keptArgs(flags...)...)
}

func (p *pool) keptArgs(flags ...string) []string {
	return append([]string{"store", "--master_server_address", p.rpc, "--metadata_server", p.meta, "--local_hostname", "127.0.0.1"}, flags...)
}

// eventuallyGets waits until a key has its value again. It never has another one.
func (p *pool) eventuallyGets(t *testing.T, key string) {
	t.Helper()
	value := strings.Repeat(key+"\n", 1000)
	require.Eventually(t, func() bool {
		r := p.client(t, "", "get", key)
		return r.Code == 0 && assert.Equal(t, value, r.Stdout)
	}, 30*time.Second, 20*time.Millisecond)
}

// TestKeptByAKeeper: what a store has outlives kill -9, SIGTERM, another size, and the end of the whole pool.
func TestKeptByAKeeper(t *testing.T) {
	p := startPool(t, 0)
	socket := filepath.Join(t.TempDir(), "keep.sock")
	start(t, "keeper", "mooncake", "keep", "--socket", socket)
	flags := []string{"--keep", socket, "--global_segment_size", "32MiB"}
	s := p.keptStore(t, flags...)
	p.waitMounted(t, 1)
	p.mustPutGet(t, "k")

	s.Kill()
	s = p.keptStore(t, flags...)
	p.eventuallyGets(t, "k")

	require.NoError(t, s.Stop(t.Context()))
	s = p.keptStore(t, "--keep", socket, "--global_segment_size", "64MiB")
	p.eventuallyGets(t, "k")
	p.waitMounted(t, 2)
	says(t, s, "segments_found=1")

	s.Kill()
	p.master.Kill()
	p.startMaster(t)
	s = p.keptStore(t, flags...)
	p.eventuallyGets(t, "k")
	p.waitMounted(t, 1)
	says(t, s, "kept memory does not fit")
}

// TestAStoreStartsAKeeper: with the word keeper a store starts one that outlives it.
func TestAStoreStartsAKeeper(t *testing.T) {
	socket := fmt.Sprintf("@mooncake_keep_%d", os.Geteuid())
	if c, err := net.Dial("unixpacket", socket); err == nil {
		_ = c.Close()
		t.Skip("a keeper of this user runs already")
	}
	p := startPool(t, 0)
	flags := []string{"--keep", "keeper", "--global_segment_size", "32MiB"}
	s := p.keptStore(t, flags...)
	t.Cleanup(func() { endKeeper(t, socket) })
	p.waitMounted(t, 1)
	p.mustPutGet(t, "k")
	s.Kill()
	s = p.keptStore(t, flags...)
	p.eventuallyGets(t, "k")
	says(t, s, "segments_found=1")
	s.Kill()
	s = p.keptStore(t, "--keep", "auto", "--global_segment_size", "32MiB")
	p.eventuallyGets(t, "k")
	says(t, s, "segments_found=1")
}

// endKeeper ends the keeper that listens at a socket.
func endKeeper(t *testing.T, socket string) {
	c, err := net.Dial("unixpacket", socket)
	if !assert.NoError(t, err, "the keeper outlives its store") {
		return
	}
	defer c.Close() //nolint:errcheck // Its other end is about to be killed.
	raw, err := c.(*net.UnixConn).SyscallConn()
	require.NoError(t, err)
	require.NoError(t, raw.Control(func(fd uintptr) {
		cred, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
		if assert.NoError(t, err) {
			assert.NoError(t, syscall.Kill(int(cred.Pid), syscall.SIGTERM))
		}
	}))
}

// serviceManager does for a service what systemd does: it stores descriptors and passes them to the next process.
type serviceManager struct {
	t      *testing.T
	socket string
	mu     sync.Mutex
	names  []string
	files  []*os.File
}

func newServiceManager(t *testing.T) *serviceManager {
	m := &serviceManager{t: t, socket: filepath.Join(t.TempDir(), "notify")}
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: m.socket, Net: "unixgram"})
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = c.Close()
		for _, f := range m.files {
			_ = f.Close()
		}
	})
	go func() {
		for b := make([]byte, 1000); ; {
			n, fds, err := unixmsg.ReadMsg(c, b, 1)
			if err != nil {
				return
			}
			_, name, _ := strings.Cut(string(b[:n]), "FDNAME=")
			m.mu.Lock()
			if len(fds) == 1 {
				m.names, m.files = append(m.names, name), append(m.files, os.NewFile(uintptr(fds[0]), name))
			}
			m.mu.Unlock()
		}
	}()
	return m
}

// start starts the service with the descriptors that are stored.
func (m *serviceManager) start(args ...string) *cluster.Proc {
	m.mu.Lock()
	defer m.mu.Unlock()
	script, env := "", append(programs.Environ(), "NOTIFY_SOCKET="+m.socket, "FDSTORE=64")
	for i, f := range m.files { // The shell opens copies as the descriptors from 3 on.
		script += fmt.Sprintf("exec %d<>/proc/%d/fd/%d; ", 3+i, os.Getpid(), f.Fd())
	}
	if len(m.files) > 0 {
		env = append(env, fmt.Sprintf("LISTEN_FDS=%d", len(m.files)), "LISTEN_FDNAMES="+strings.Join(m.names, ":"))
	}
	p, err := cluster.Start(cluster.Spec{Name: "service", Program: "bash", Env: env,
		Args: append([]string{"-c", script + `LISTEN_PID=$$ exec "$0" "$@"`, filepath.Join(bin, "mooncake")}, args...)})
	require.NoError(m.t, err)
	m.t.Cleanup(func() {
		p.Kill()
		if m.t.Failed() {
			m.t.Log(p.Tail())
		}
	})
	return p
}

// TestKeptByAServiceManager: as a service a store needs no keeper.
func TestKeptByAServiceManager(t *testing.T) {
	p, m := startPool(t, 0), newServiceManager(t)
	args := p.keptArgs("--keep", "systemd", "--global_segment_size", "32MiB")
	s := m.start(args...)
	p.waitMounted(t, 1)
	p.mustPutGet(t, "k")
	s.Kill()
	s = m.start(args...)
	p.eventuallyGets(t, "k")
	require.NoError(t, s.Stop(t.Context()))
	s = m.start(args...)
	p.eventuallyGets(t, "k")
	says(t, s, "segments_found=1")
	s.Kill()
	s = m.start(append(args, "--cluster_id", "another")...)
	says(t, s, "it belongs to cluster")
	says(t, s, "segments_found=0")
}
