package etcdserver

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"

	"github.com/mooncake-go/mooncake/core/metadata/storetest"
)

// The environment of a process that is an etcd, see Main.
const envDir, envClients, envPeers = "MOONCAKE_TEST_ETCD_DIR", "MOONCAKE_TEST_ETCD_CLIENTS", "MOONCAKE_TEST_ETCD_PEERS"

// Main makes this process an etcd, until it is killed, if NewProcess has started it. A TestMain calls it
// first.
func Main() {
	dir := os.Getenv(envDir)
	if dir == "" {
		return
	}
	e, err := embed.StartEtcd(config(dir, os.Getenv(envClients), os.Getenv(envPeers)))
	if err == nil {
		err = <-e.Err()
	}
	fmt.Fprintln(os.Stderr, "etcd:", err)
	os.Exit(1)
}

func config(dir, clients, peers string) *embed.Config {
	cfg := embed.NewConfig()
	cfg.Dir = dir
	cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop())
	cfg.UnsafeNoFsync = true // A test survives no loss of power.
	at := []url.URL{{Scheme: "http", Host: clients}}
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = at, at
	at = []url.URL{{Scheme: "http", Host: peers}}
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = at, at
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
	cfg.BcryptCost = 4 // Nor does it guard a password.
	cfg.TickMs, cfg.ElectionMs = 10, 100
	return cfg
}

// Process is an etcd of one member in a process of its own, which a test kills and stops.
type Process struct {
	// Address is "host:port" on loopback, the same after a restart.
	Address    string
	peers, dir string
	cmd        *exec.Cmd
}

// NewProcess starts an etcd that ends with the test. The TestMain of the test calls Main.
func NewProcess(t testing.TB) *Process {
	p := &Process{Address: storetest.FreeAddress(t), peers: storetest.FreeAddress(t), dir: t.TempDir()}
	p.Start(t)
	t.Cleanup(p.Kill)
	return p
}

// Start starts it again after Kill, with its values. It returns when etcd serves.
func (p *Process) Start(t testing.TB) {
	exe, err := os.Executable()
	require.NoError(t, err)
	p.cmd = exec.Command(exe) //nolint:noctx // Kill ends it.
	p.cmd.Env = append(os.Environ(), envDir+"="+p.dir, envClients+"="+p.Address, envPeers+"="+p.peers)
	p.cmd.Stderr = os.Stderr
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	require.NoError(t, p.cmd.Start())
	require.Eventually(t, func() bool { return healthy(p.Address) }, 30*time.Second, 20*time.Millisecond, "etcd does not start")
}

// Kill ends it at once. Repeatable.
func (p *Process) Kill() {
	if p.cmd != nil {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
		p.cmd = nil
	}
}

// Wipe removes the values of an etcd that was killed.
func (p *Process) Wipe(t testing.TB) { require.NoError(t, os.RemoveAll(p.dir)) }

// Signal sends it a signal, SIGSTOP for example.
func (p *Process) Signal(t testing.TB, s os.Signal) { require.NoError(t, p.cmd.Process.Signal(s)) }

func healthy(address string) bool {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/health", nil)
	if err != nil {
		return false
	}
	transport := &http.Transport{DisableKeepAlives: true}
	r, err := transport.RoundTrip(req)
	if err != nil {
		return false
	}
	_ = r.Body.Close()
	return r.StatusCode == http.StatusOK
}
