package vault

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// startKeeper runs a keeper until the test ends and returns its socket.
func startKeeper(t *testing.T, cfg KeeperConfig) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "keep") // t.TempDir is too long for a socket.
	require.NoError(t, err)
	path := filepath.Join(dir, "s")
	l, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: path, Net: "unixpacket"})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- NewKeeper(cfg, slog.New(slog.DiscardHandler)).Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-done)
		require.NoError(t, os.RemoveAll(dir))
	})
	return path
}

// dial opens a vault as an owner, and waits for it to notice that the process before has gone.
func dial(t *testing.T, path, owner string) Vault {
	t.Helper()
	var v Vault
	require.Eventually(t, func() bool {
		var err error
		v, err = as(t.Context(), path, owner)
		if err != nil {
			require.ErrorIs(t, err, ErrTaken)
		}
		return err == nil
	}, 20*time.Second, time.Millisecond)
	t.Cleanup(func() { _ = v.Close() })
	return v
}

func content(t *testing.T, f *os.File) string {
	t.Helper()
	b := make([]byte, 100)
	n, _ := f.ReadAt(b, 0)
	require.NoError(t, f.Close())
	return strings.TrimRight(string(b[:n]), "\x00")
}

// TestKeepTime: memory whose process does not return is given back, and that of a process that does is not.
func TestKeepTime(t *testing.T) {
	cfg := DefaultKeeperConfig()
	cfg.KeepTime = 50 * time.Millisecond
	path := startKeeper(t, cfg)
	start := func(owner string) Vault {
		v := dial(t, path, owner)
		require.NoError(t, keep(v, "m", owner))
		return v
	}
	require.NoError(t, start("leaves").Close())
	stays := start("stays")
	require.Eventually(t, func() bool {
		v, err := Dial(t.Context(), path, "leaves")
		if err != nil {
			return false
		}
		names, err := v.Names(t.Context())
		require.NoError(t, err)
		require.NoError(t, v.Close())
		return len(names) == 0
	}, 20*time.Second, 3*cfg.KeepTime)
	f, err := stays.Take(t.Context(), "m")
	require.NoError(t, err)
	require.Equal(t, "stays", content(t, f))
}

// TestBounds: a keeper holds a bounded number of descriptors and connections, and gives both free again.
func TestBounds(t *testing.T) {
	cfg := DefaultKeeperConfig()
	cfg.MaxFiles, cfg.MaxConnections = 2, 2
	path := startKeeper(t, cfg)
	v := dial(t, path, "a")
	f, err := memfd("x")
	require.NoError(t, err)
	defer f.Close() //nolint:errcheck // It is memory.
	require.NoError(t, v.Keep(t.Context(), "1", f))
	require.NoError(t, v.Keep(t.Context(), "2", f))
	require.ErrorIs(t, v.Keep(t.Context(), "3", f), ErrFull)
	require.NoError(t, v.Keep(t.Context(), "2", f), "in place of another")
	require.NoError(t, v.Drop(t.Context(), "1"))
	require.NoError(t, v.Keep(t.Context(), "3", f))
	b := dial(t, path, "b")
	_, err = Dial(t.Context(), path, "c")
	require.Error(t, err)
	require.NoError(t, b.Close())
	require.Eventually(t, func() bool {
		c, err := Dial(t.Context(), path, "c")
		return err == nil && c.Close() == nil
	}, 20*time.Second, time.Millisecond)
}

// TestGarbage: whatever a process sends, it is answered with an error or cut off, and the keeper goes on.
func TestGarbage(t *testing.T) {
	path := startKeeper(t, DefaultKeeperConfig())
	f, err := memfd("x")
	require.NoError(t, err)
	defer f.Close() //nolint:errcheck // It is memory.
	for _, q := range []any{"text", request{Op: opTake, Name: "m"}, request{Op: "other"}, map[string]any{"op": 5}, request{Op: opHello}} {
		c, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: path, Net: "unixpacket"})
		require.NoError(t, err)
		require.NoError(t, send(c, q, f))
		require.NoError(t, c.SetDeadline(time.Now().Add(20*time.Second)))
		var a answer
		_, err = receive(c, &a)
		require.Error(t, err)
		require.False(t, errors.Is(err, os.ErrDeadlineExceeded), "it is cut off")
		require.NoError(t, c.Close())
	}
	v := dial(t, path, "o").(*keeperVault)
	_, _, err = v.call(t.Context(), &request{Op: "other", Name: "m"}, nil)
	require.ErrorContains(t, err, "not known")
	_, _, err = v.call(t.Context(), &request{Op: opTake, Name: "m"}, f)
	require.ErrorContains(t, err, "a descriptor comes with keep")
	_, _, err = v.call(t.Context(), &request{Op: opKeep, Name: "m"}, nil)
	require.ErrorContains(t, err, "a descriptor comes with keep")
	require.NoError(t, v.Keep(t.Context(), "m", f))
}

// TestStoppedKeeper: a keeper that stands still fails a call in time.
func TestStoppedKeeper(t *testing.T) {
	dir, err := os.MkdirTemp("", "keep")
	require.NoError(t, err)
	defer os.RemoveAll(dir) //nolint:errcheck // A folder for temporary files.
	path := filepath.Join(dir, "s")
	l, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: path, Net: "unixpacket"})
	require.NoError(t, err)
	defer l.Close() //nolint:errcheck // It only listens.
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err = Dial(ctx, path, "o")
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
}
