package e2e

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
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

// TestKept: what a store has outlives kill -9, SIGTERM, another size, and the end of the whole pool: with a keeper, and
// in files.
func TestKept(t *testing.T) {
	t.Run("keeper", func(t *testing.T) {
		socket := filepath.Join(t.TempDir(), "keep.sock")
		start(t, "keeper", "mooncake", "keep", "--socket", socket)
		testKept(t, "--keep", socket)
	})
	t.Run("tmpfs", func(t *testing.T) { testKept(t, "--keep", tmpfs(t)) })
	t.Run("hugetlbfs", func(t *testing.T) {
		testKept(t, "--keep", hugetlbfs(t, 64), "--use_hugepage", "--local_buffer_size", "0", "--mmap_arena_pool_size", "0")
	})
}

func testKept(t *testing.T, flags ...string) {
	p := startPool(t, 0)
	sized := func(size string) []string { return append([]string{"--global_segment_size", size}, flags...) }
	s := p.keptStore(t, sized("32MiB")...)
	p.waitMounted(t, 1)
	p.mustPutGet(t, "k")

	s.Kill()
	s = p.keptStore(t, sized("32MiB")...)
	p.eventuallyGets(t, "k")

	require.NoError(t, s.Stop(t.Context()))
	s = p.keptStore(t, sized("64MiB")...)
	p.eventuallyGets(t, "k")
	p.waitMounted(t, 2)
	says(t, s, "segments_found=1")

	s.Kill()
	p.master.Kill()
	p.startMaster(t)
	s = p.keptStore(t, sized("32MiB")...)
	p.eventuallyGets(t, "k")
	p.waitMounted(t, 1)
	says(t, s, "kept memory does not fit")
}

// tmpfs returns a directory of a tmpfs.
func tmpfs(t *testing.T) string {
	var fs unix.Statfs_t
	if err := unix.Statfs("/dev/shm", &fs); err != nil || fs.Type != unix.TMPFS_MAGIC {
		t.Skipf("/dev/shm is no tmpfs: %v", err)
	}
	dir, err := os.MkdirTemp("/dev/shm", "mooncake-e2e-")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	return dir
}

// hugetlbfs mounts one and makes pages of 2 MiB for it, if the machine permits it.
func hugetlbfs(t *testing.T, pages int) string {
	const pool = "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages"
	more := func(n int) error {
		b, err := os.ReadFile(pool)
		if err != nil {
			return err
		}
		had, err := strconv.Atoi(strings.TrimSpace(string(b)))
		require.NoError(t, err)
		return os.WriteFile(pool, []byte(strconv.Itoa(had+n)), 0)
	}
	if err := more(pages); err != nil {
		t.Skipf("huge pages cannot be made: %v", err)
	}
	t.Cleanup(func() { require.NoError(t, more(-pages)) })
	dir := t.TempDir()
	if err := unix.Mount("none", dir, "hugetlbfs", 0, "pagesize=2M,mode=0700"); err != nil {
		t.Skipf("a hugetlbfs cannot be mounted: %v", err)
	}
	t.Cleanup(func() { require.NoError(t, unix.Unmount(dir, unix.MNT_DETACH)) })
	return dir
}

// TestTwoStoresInOneDirectory: each has memory of its own there, and finds it again. A peer of the host reads it, though
// not as shared memory.
func TestTwoStoresInOneDirectory(t *testing.T) {
	dir := tmpfs(t)
	p := startPool(t, 0)
	flags := []string{"--keep", dir, "--global_segment_size", "32MiB"}
	a, b := p.keptStore(t, flags...), p.keptStore(t, flags...)
	p.waitMounted(t, 2)
	folders, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, folders, 2)
	keys := []string{"k0", "k1", "k2", "k3", "k4", "k5"}
	for _, key := range keys {
		p.mustPutGet(t, key)
	}
	says(t, a, "files take no seals")
	a.Kill()
	b.Kill()
	a, b = p.keptStore(t, flags...), p.keptStore(t, flags...)
	for _, key := range keys {
		p.eventuallyGets(t, key)
	}
	for _, s := range []*cluster.Proc{a, b} {
		says(t, s, "segments_found=1")
	}
}

// TestADirectoryThatIsRefused: a store says what is wrong with it and what to do.
func TestADirectoryThatIsRefused(t *testing.T) {
	for where, says := range map[string]string{"/dev/shm": "mkdir -m 700 /dev/shm/mooncake", "/dev/null": "is a device"} {
		r := programs.Run(t, programs.Spec{Program: filepath.Join(bin, "mooncake"), Args: []string{"store", "--keep", where}, Env: programs.Environ()})
		require.NotZero(t, r.Code)
		require.Contains(t, r.Stderr, says)
	}
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
