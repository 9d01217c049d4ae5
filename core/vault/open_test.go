package vault

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func settings(where string) Settings {
	return Settings{Where: where, Owner: "pool:node/1", KeepTime: time.Minute, Env: func(string) string { return "" }}
}

// keepText keeps a file that holds text.
func keepText(t *testing.T, v Vault, text string) {
	t.Helper()
	f, err := memfd(text)
	require.NoError(t, err)
	require.NoError(t, v.Keep(t.Context(), "segment", f))
	require.NoError(t, f.Close())
}

func kept(t *testing.T, v Vault) string {
	t.Helper()
	f, err := v.Take(t.Context(), "segment")
	require.NoError(t, err)
	return content(t, f)
}

// TestStoresOfOneOwner: stores with the same name each have memory of their own, and the ones that return find it.
func TestStoresOfOneOwner(t *testing.T) {
	path := startKeeper(t, DefaultKeeperConfig())
	s := settings(path)
	open := func() Vault {
		v, err := Open(t.Context(), s)
		require.NoError(t, err)
		return v
	}
	a := open()
	keepText(t, a, "a")
	b := open()
	names, err := b.Names(t.Context())
	require.NoError(t, err)
	require.Empty(t, names, "a lives and has its memory for itself")
	keepText(t, b, "b")
	require.NoError(t, a.Close())
	again := open()
	require.Equal(t, "a", kept(t, again))
	require.NoError(t, again.Close())
	require.NoError(t, b.Close())
	got := map[string]bool{}
	one, two := open(), open()
	got[kept(t, one)], got[kept(t, two)] = true, true
	require.Equal(t, map[string]bool{"a": true, "b": true}, got)
	require.NoError(t, one.Close())
	require.NoError(t, two.Close())
}

// TestAnew: a store whose keeper was restarted does not take the memory of another one.
func TestAnew(t *testing.T) {
	path := startKeeper(t, DefaultKeeperConfig())
	other, err := Open(t.Context(), settings(path))
	require.NoError(t, err)
	keepText(t, other, "of another store")
	require.NoError(t, other.Close())
	s := settings(path)
	s.Anew = true
	v, err := Open(t.Context(), s)
	require.NoError(t, err)
	names, err := v.Names(t.Context())
	require.NoError(t, err)
	require.Empty(t, names)
	require.NoError(t, v.Close())
}

// TestStoresStartTogether: each gets a number of its own.
func TestStoresStartTogether(t *testing.T) {
	path := startKeeper(t, DefaultKeeperConfig())
	vaults, all := [8]Vault{}, sync.WaitGroup{}
	for i := range vaults {
		all.Go(func() {
			v, err := Open(t.Context(), settings(path))
			if assert.NoError(t, err) {
				vaults[i] = v
			}
		})
	}
	all.Wait()
	for _, v := range vaults {
		if v != nil {
			require.NoError(t, v.Close())
		}
	}
}

// TestAStoreWaitsForItsLastProcess: a process that was just killed still has its memory for a moment. The next one
// waits for it, and does not begin without memory.
func TestAStoreWaitsForItsLastProcess(t *testing.T) {
	path := startKeeper(t, DefaultKeeperConfig())
	before, err := Open(t.Context(), settings(path))
	require.NoError(t, err)
	keepText(t, before, "memory")
	go func() {
		time.Sleep(100 * time.Millisecond)
		_ = before.Close()
	}()
	v, err := Open(t.Context(), settings(path))
	require.NoError(t, err)
	require.Equal(t, "memory", kept(t, v))
	require.NoError(t, v.Close())
}

func TestNoVault(t *testing.T) {
	v, err := Open(t.Context(), settings("off"))
	require.NoError(t, err)
	require.Nil(t, v)
	_, err = Open(t.Context(), settings("systemd"))
	require.ErrorContains(t, err, "NOTIFY_SOCKET")
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = Open(ctx, settings(filepath.Join(t.TempDir(), "none")))
	require.ErrorContains(t, err, "no such file")
}

// TestAKeeperOfAnotherUser: descriptors are not given to a process of another user, which may have taken the name of
// the keeper's socket.
func TestAKeeperOfAnotherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can run a process as another user")
	}
	name := fmt.Sprintf("@mooncake-test-keeper-%d", os.Getpid())
	cmd := exec.Command("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "/proc/self/exe")
	if _, err := exec.LookPath("setpriv"); err != nil {
		t.Skip("setpriv is not here")
	}
	self, err := os.Open("/proc/self/exe") // The folder of the test's program may be closed to others.
	require.NoError(t, err)
	defer self.Close() //nolint:errcheck // It is read only.
	cmd.Args[len(cmd.Args)-1] = "/proc/self/fd/3"
	cmd.ExtraFiles, cmd.Env, cmd.Stderr = []*os.File{self}, []string{roleVariable + "=keeper " + name}, os.Stderr
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	_, err = bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	_, err = Dial(t.Context(), name, "store")
	require.ErrorContains(t, err, "belongs to user 65534")
}

// keeperRole is a keeper as a process.
func keeperRole(name string) error {
	l, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: name, Net: "unixpacket"})
	if err != nil {
		return err
	}
	fmt.Println("serves")
	return NewKeeper(DefaultKeeperConfig(), slog.New(slog.DiscardHandler)).Serve(context.Background(), l)
}

// TestAnIdleKeeperEnds: it ends when it keeps nothing and serves no store, not before.
func TestAnIdleKeeperEnds(t *testing.T) {
	l, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: filepath.Join(t.TempDir(), "s"), Net: "unixpacket"})
	require.NoError(t, err)
	cfg := DefaultKeeperConfig()
	cfg.Idle, cfg.KeepTime = 40*time.Millisecond, 3*time.Second
	ended := make(chan error, 1)
	go func() { ended <- NewKeeper(cfg, slog.New(slog.DiscardHandler)).Serve(context.Background(), l) }()
	v, err := Dial(t.Context(), l.Addr().String(), "store")
	require.NoError(t, err)
	keepText(t, v, "memory")
	time.Sleep(2 * cfg.Idle)
	require.Equal(t, "memory", kept(t, v), "a store is connected")
	require.NoError(t, v.Close())
	time.Sleep(2 * cfg.Idle)
	v, err = Open(t.Context(), settings(l.Addr().String()))
	require.NoError(t, err, "it keeps memory")
	require.NoError(t, v.Close())
	require.NoError(t, <-ended)
}
