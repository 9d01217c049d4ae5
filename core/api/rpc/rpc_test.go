package rpc_test

import (
	"context"
	"net"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mooncake-go/mooncake/core/api/rpc/client"
	"github.com/mooncake-go/mooncake/core/api/rpc/server"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/store"
)

// This caller has no name.
var anonymous model.Caller

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// overGRPC names the variable with which these tests run over gRPC alone.
const overGRPC = "MOONCAKE_TEST_OVER_GRPC"

// TestEverythingOverGRPC runs all tests again, over gRPC, which clients other than this program's
// speak.
func TestEverythingOverGRPC(t *testing.T) {
	if os.Getenv(overGRPC) != "" {
		t.Skip("this is it")
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.timeout=10m", "-test.v")
	cmd.Env = append(os.Environ(), overGRPC+"=1")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "--- PASS: TestRemoteEqualsLocal")
}

// serve runs a server of m on loopback until the test ends, and returns its address.
func serve(t testing.TB, m store.Master, opts server.Options) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	start(t, m, opts, ln)
	return ln.Addr().String()
}

// start serves on ln and returns a function that stops, which also runs with the test's end.
func start(t testing.TB, m store.Master, opts server.Options, ln net.Listener) (stop func()) {
	t.Helper()
	s := server.New(m, opts)
	done := make(chan error, 1)
	go func() { done <- s.Serve(ln) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		s.Stop(ctx)
		require.NoError(t, <-done)
	}
	t.Cleanup(stop)
	return stop
}

func dial(t testing.TB, addr string, opts client.Options) *client.Client {
	t.Helper()
	opts.GRPC = opts.GRPC || os.Getenv(overGRPC) != ""
	c, err := client.Dial(addr, opts)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

// connect returns a client of a server of m.
func connect(t testing.TB, m store.Master) *client.Client {
	return dial(t, serve(t, m, server.Options{}), client.Options{})
}
