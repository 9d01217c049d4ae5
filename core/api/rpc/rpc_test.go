package rpc_test

import (
	"context"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mooncake-go/mooncake/core/api/rpc/client"
	"github.com/mooncake-go/mooncake/core/api/rpc/server"
	"github.com/mooncake-go/mooncake/core/certs"
	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/internal/doors"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/sdk/security"
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

// overTLS names the variable with which tests run over TLS, on top of what they use otherwise.
const overTLS = "MOONCAKE_TEST_OVER_TLS"

// TestEverythingOverTLS runs the tests that make calls again, between processes that show certificates.
func TestEverythingOverTLS(t *testing.T) {
	if os.Getenv(overGRPC) != "" || os.Getenv(overTLS) != "" {
		t.Skip("this is it")
	}
	for _, grpc := range []string{"", overGRPC + "=1"} {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.timeout=10m", "-test.v", "-test.run="+secureTests)
		cmd.Env = append(os.Environ(), overTLS+"=1", grpc)
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		require.Contains(t, string(out), "--- PASS: TestRemoteEqualsLocal")
	}
}

// secureTests make calls and do not work on sockets themselves.
const secureTests = "^(TestATenantThatIsNoTextIsRefused|TestAnswersInMemoryOfTheCaller|TestCallersArrive|TestMasterWithoutAQuarantine|TestRemoteEqualsLocal|TestSecureCallsAtOnce)$"

// TestSecureCallsAtOnce makes small and large calls at once: answers wait for each other's records.
func TestSecureCallsAtOnce(t *testing.T) {
	c := dial(t, serve(t, newTableMaster(), server.Options{}), client.Options{Connections: 2})
	var all sync.WaitGroup
	for i := range 16 {
		all.Go(func() {
			for n := range 30 {
				keys := make([]model.Key, 1+n*n)
				for k := range keys {
					keys[k] = strings.Repeat("k", 1+i) + strconv.Itoa(k)
				}
				found, err := c.Exist(t.Context(), anonymous, keys)
				assert.NoError(t, err)
				assert.Len(t, found, len(keys))
			}
		})
	}
	all.Wait()
}

// secured are the doors of a master and of a client where tests run over TLS, nil otherwise.
var secured = sync.OnceValues(func() (master, store *doors.Doors) {
	if os.Getenv(overTLS) == "" {
		return nil, nil
	}
	dir, err := os.MkdirTemp("", "rpc")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	folder := certs.Folder(filepath.Join(dir, "pki"))
	made, err := folder.Try("test", nil, certs.Least, time.Now())
	if err != nil {
		panic(err)
	}
	open := func(role security.Role) *doors.Doors {
		f := made[role]
		d, err := doors.Open(config.Security{Mode: "mtls", CA: folder.Authority().Cert, Cert: f.Cert, Key: f.Key}, slog.New(slog.DiscardHandler))
		if err != nil {
			panic(err)
		}
		return d
	}
	return open(security.RoleMaster), open(security.RoleMaster) // Masters may name clients of others.
})

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
	master, _ := secured()
	ln, err := master.Guard(ln, config.DoorRPC)
	require.NoError(t, err)
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

// over returns options with what the tests run over.
func over(o client.Options) client.Options {
	o.GRPC = o.GRPC || os.Getenv(overGRPC) != ""
	_, o.Doors = secured()
	return o
}

func dial(t testing.TB, addr string, opts client.Options) *client.Client {
	t.Helper()
	c, err := client.Dial(addr, over(opts))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

// connect returns a client of a server of m.
func connect(t testing.TB, m store.Master) *client.Client {
	return dial(t, serve(t, m, server.Options{}), client.Options{})
}
