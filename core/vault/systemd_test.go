package vault

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/sdk/x/shm"
)

// manager is the socket of a service manager.
func manager(t *testing.T) (*net.UnixConn, func(string) string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "n")
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	require.NoError(t, c.SetDeadline(time.Now().Add(20*time.Second)))
	env := map[string]string{envNotify: path, envStore: "8"}
	return c, func(k string) string { return env[k] }
}

// said returns the next message to the manager.
func said(t *testing.T, c *net.UnixConn) (string, *os.File) {
	t.Helper()
	b := make([]byte, 1000)
	n, fds, err := shm.ReadMsg(c, b, 1)
	require.NoError(t, err)
	if len(fds) == 0 {
		return string(b[:n]), nil
	}
	return string(b[:n]), os.NewFile(uintptr(fds[0]), "")
}

// TestSystemd: descriptors are stored, replaced and removed in the words of sd_notify(3).
func TestSystemd(t *testing.T) {
	c, env := manager(t)
	v, err := Systemd(env)
	require.NoError(t, err)
	for i, text := range []string{"first", "second"} {
		f, err := memfd(text)
		require.NoError(t, err)
		require.NoError(t, v.Keep(t.Context(), "segment-1", f))
		require.NoError(t, f.Close())
		if i > 0 {
			msg, got := said(t, c)
			require.Equal(t, "FDSTOREREMOVE=1\nFDNAME=segment-1", msg)
			require.Nil(t, got)
		}
		msg, got := said(t, c)
		require.Equal(t, "FDSTORE=1\nFDPOLL=0\nFDNAME=segment-1", msg)
		require.Equal(t, text, content(t, got))
	}
	f, err := v.Take(t.Context(), "segment-1")
	require.NoError(t, err)
	require.Equal(t, "second", content(t, f))
	require.NoError(t, v.Drop(t.Context(), "segment-1"))
	msg, _ := said(t, c)
	require.Equal(t, "FDSTOREREMOVE=1\nFDNAME=segment-1", msg)
	_, err = v.Take(t.Context(), "segment-1")
	require.ErrorIs(t, err, ErrNotKept)
	require.NoError(t, v.Drop(t.Context(), "segment-1"))
	require.NoError(t, v.Close())
}

// TestPassed: a new process of the service finds by name what the manager passes to it.
func TestPassed(t *testing.T) {
	a, err := memfd("one")
	require.NoError(t, err)
	b, err := memfd("two")
	require.NoError(t, err)
	cmd := exec.Command("sh", "-c", `LISTEN_PID=$$ exec "$0"`, os.Args[0])
	cmd.ExtraFiles = []*os.File{a, b, a}
	cmd.Env = append(os.Environ(), roleVariable+"=service", envNotify+"=/nowhere", envCount+"=3", envNames+"=ledger:segment:segment")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Equal(t, "ledger: one\nsegment: two\n", string(out))
	require.NoError(t, a.Close())
	require.NoError(t, b.Close())
}

// TestNoSystemd: a process that is no service, or whose unit stores nothing, is told what is missing.
func TestNoSystemd(t *testing.T) {
	_, err := Systemd(func(string) string { return "" })
	require.ErrorContains(t, err, "NOTIFY_SOCKET")
	_, err = Systemd(func(k string) string { return map[string]string{envNotify: "/x"}[k] })
	require.ErrorContains(t, err, "FileDescriptorStoreMax=")
}
