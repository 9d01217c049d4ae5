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
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func settings(where string) Settings {
	return Settings{Where: where, Owner: "pool:node/1", KeepTime: time.Minute, Env: func(string) string { return "" }}
}

func kept(t *testing.T, v Vault) string {
	t.Helper()
	f, err := v.Take(t.Context(), "segment")
	require.NoError(t, err)
	return content(t, f)
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
	cfg.Idle, cfg.KeepTime = 400*time.Millisecond, 5*time.Second // A busy machine connects within Idle.
	ended := make(chan error, 1)
	go func() { ended <- NewKeeper(cfg, slog.New(slog.DiscardHandler)).Serve(context.Background(), l) }()
	v, err := Dial(t.Context(), l.Addr().String(), "store")
	require.NoError(t, err)
	require.NoError(t, keep(v, "segment", "memory"))
	time.Sleep(2 * cfg.Idle)
	require.Equal(t, "memory", kept(t, v), "a store is connected")
	require.NoError(t, v.Close())
	time.Sleep(2 * cfg.Idle)
	v, err = Open(t.Context(), settings(l.Addr().String()))
	require.NoError(t, err, "it keeps memory")
	require.NoError(t, v.Close())
	require.NoError(t, <-ended)
}
