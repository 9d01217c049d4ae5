package interop

import (
	"bufio"
	"context"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/api/rpc/client"
	"github.com/mooncake-go/mooncake/core/api/rpc/server"
	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// unserved is a master of which no call is made: the store clients of upstream are turned
// away before.
type unserved struct{ store.Master }

// TestUpstreamStoreAtOurMaster: its setup fails after as many attempts as upstream's makes by
// itself, each ended at once, and its log has this master's words.
func TestUpstreamStoreAtOurMaster(t *testing.T) {
	python := upstreamPython(t)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	turned := make(chan string, 1000)
	server := server.New(unserved{}, server.Options{HandshakeTimeout: time.Hour, Foreign: func(protocol string) { turned <- protocol }})
	served := make(chan error, 1)
	go func() { served <- server.Serve(ln) }()
	defer func() { server.Stop(t.Context()); require.NoError(t, <-served) }()

	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, python, "-c", `
import sys
from mooncake.store import MooncakeDistributedStore
print("setup", MooncakeDistributedStore().setup("127.0.0.1", "P2PHANDSHAKE", 16 << 20, 16 << 20, "tcp", "", sys.argv[1]))
`, ln.Addr().String())
	cmd.Env = append(os.Environ(), "MC_FORCE_TCP=1", "MC_TCP_BIND_ADDRESS=127.0.0.1")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	assert.Contains(t, string(out), "setup -")
	assert.Contains(t, string(out), "RPC call failed: this is a master of Mooncake in Go")
	require.NotEmpty(t, turned)
	assert.Equal(t, "coro_rpc", <-turned)
}

// TestOurClientAtUpstreamsMaster: the first call says whose master it is, for good.
func TestOurClientAtUpstreamsMaster(t *testing.T) {
	master := filepath.Join(filepath.Dir(upstreamPython(t)), "mooncake_master")
	rpcPort, adminPort := freePort(t), freePort(t)
	cmd := exec.Command(master, "-rpc_port="+rpcPort, "-metrics_port="+adminPort)
	said, err := cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	go func() { _, _ = io.Copy(io.Discard, bufio.NewReader(said)) }()
	for _, port := range []string{rpcPort, adminPort} {
		require.Eventually(t, func() bool {
			conn, err := net.Dial("tcp", "127.0.0.1:"+port)
			if err == nil {
				conn.Close()
			}
			return err == nil
		}, patience, 20*time.Millisecond)
	}
	for port, want := range map[string]string{rpcPort: "is a master of upstream (coro_rpc)", adminPort: "is an HTTP server"} {
		c, err := client.Dial("127.0.0.1:"+port, client.Options{})
		require.NoError(t, err)
		_, err = c.Ready(t.Context())
		require.ErrorIs(t, err, errs.ErrForeign)
		assert.Equal(t, errs.ClassPermanent, errs.ClassOf(err))
		assert.ErrorContains(t, err, "127.0.0.1:"+port+" "+want)
		require.NoError(t, c.Close())
	}
}

func freePort(t *testing.T) string {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer ln.Close()
	return strconv.Itoa(ln.Addr().(*net.TCPAddr).Port)
}
