package app

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/api/rest"
	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/ha"
	"github.com/mooncake-go/mooncake/core/ha/open"
	"github.com/mooncake-go/mooncake/core/metadata/storetest"
	"github.com/mooncake-go/mooncake/core/metadata/storetest/etcdserver"
	"github.com/mooncake-go/mooncake/core/model"
	arena "github.com/mooncake-go/mooncake/plugins/alloc-arena"
	prefix "github.com/mooncake-go/mooncake/plugins/evict-prefix"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/plugin"

	rpcclient "github.com/mooncake-go/mooncake/core/api/rpc/client"
)

// candidate is a master of several, with its ports.
type candidate struct {
	rpc, admin string
	stop       context.CancelFunc
	ended      chan error
}

func startCandidate(t *testing.T, etcd string, change ...func(*config.Master)) *candidate {
	t.Helper()
	return startLoggingCandidate(t, quiet, etcd, change...)
}

func startLoggingCandidate(t *testing.T, log *slog.Logger, etcd string, change ...func(*config.Master)) *candidate {
	t.Helper()
	c := &candidate{rpc: storetest.FreeAddress(t), admin: storetest.FreeAddress(t), ended: make(chan error, 1)}
	port := func(address string) int {
		_, text, err := net.SplitHostPort(address)
		require.NoError(t, err)
		n, err := strconv.Atoi(text)
		require.NoError(t, err)
		return n
	}
	cfg := settings(t, func(c2 *config.Config) {
		m := &c2.Master
		m.EnableHA, m.EtcdEndpoints, m.RPCAddress, m.MetricsHost = true, etcd, "127.0.0.1", "127.0.0.1"
		m.RPCPort, m.MetricsPort = port(c.rpc), port(c.admin)
		for _, f := range change {
			f(m)
		}
	})
	var ctx context.Context
	ctx, c.stop = context.WithCancel(context.Background())
	go func() { c.ended <- Run(ctx, log, Master(cfg, []plugin.Factory{arena.Factory(), prefix.Factory()})) }()
	t.Cleanup(func() { c.end(t) })
	return c
}

// end stops it in an orderly way. Repeatable.
func (c *candidate) end(t *testing.T) {
	c.stop()
	select {
	case err, first := <-c.ended:
		if first {
			require.NoError(t, err)
			close(c.ended)
		}
	case <-time.After(time.Minute):
		require.Fail(t, "a master does not stop")
	}
}

// get asks the admin port.
func (c *candidate) get(path string) (status int, body string) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+c.admin+path, nil)
	if err != nil {
		return 0, err.Error()
	}
	transport := &http.Transport{DisableKeepAlives: true}
	r, err := transport.RoundTrip(req)
	if err != nil {
		return 0, err.Error()
	}
	defer r.Body.Close() //nolint:errcheck // It was read.
	text, err := io.ReadAll(r.Body)
	if err != nil {
		return 0, err.Error()
	}
	return r.StatusCode, string(text)
}

// open reports whether the RPC port is open.
func (c *candidate) open() bool {
	conn, err := (&net.Dialer{Timeout: time.Second}).Dial("tcp", c.rpc) //nolint:noctx // It has a timeout.
	if err != nil {
		return false
	}
	_ = conn.Close()
	return true
}

// awaitLeader waits until one of the masters serves and all of them know it.
func awaitLeader(t *testing.T, all ...*candidate) (leader *candidate, standbys []*candidate) {
	t.Helper()
	require.Eventually(t, func() bool {
		leader, standbys = nil, nil
		address := ""
		for _, c := range all {
			if _, role := c.get("/role"); role == "leader" {
				leader, address = c, c.rpc
			} else {
				standbys = append(standbys, c)
			}
		}
		for _, c := range all {
			var said struct {
				Leader string `json:"leader_address"`
			}
			_, text := c.get("/leader")
			if json.Unmarshal([]byte(text), &said) != nil || said.Leader != address {
				return false
			}
		}
		return leader != nil
	}, 30*time.Second, 20*time.Millisecond, "no master leads")
	return leader, standbys
}

// TestOneOfSeveralMastersServes: the ports, the states and the answers of a leader and of a standby, and a handover.
func TestOneOfSeveralMastersServes(t *testing.T) {
	srv := etcdserver.New(t)
	a, b := startCandidate(t, srv.Address), startCandidate(t, srv.Address)
	leader, standbys := awaitLeader(t, a, b)
	standby := standbys[0]

	require.True(t, leader.open())
	require.False(t, standby.open())
	_, state := leader.get("/ha_status")
	require.Equal(t, "serving", state)
	_, state = standby.get("/ha_status")
	require.Equal(t, "standby", state)
	status, _ := leader.get("/get_all_keys")
	require.Equal(t, http.StatusOK, status)
	status, body := standby.get("/get_all_keys")
	require.Equal(t, http.StatusServiceUnavailable, status)
	require.Contains(t, body, "-1011")
	status, body = standby.get("/metrics")
	require.Equal(t, http.StatusOK, status, "metrics are there in every role")
	require.Contains(t, body, "master_key_count")

	client, err := rpcclient.Dial(leader.rpc, rpcclient.Options{})
	require.NoError(t, err)
	defer client.Close() //nolint:errcheck // It has no connection any more.
	reply, err := client.Ping(t.Context(), model.NewUUID(), model.PingReport{})
	require.NoError(t, err)
	require.NotZero(t, reply.ViewVersion, "upstream's clients compare it")

	leader.end(t)
	next, _ := awaitLeader(t, standby)
	require.True(t, next.open())
	_, err = client.Ping(t.Context(), model.NewUUID(), model.PingReport{})
	require.Equal(t, errs.RPCFail, errs.CodeOf(err), "%v", err)
}

// TestAStandbyKnowsWhatTheLeaderWrites: stores tell it, and it serves that when it leads.
func TestAStandbyKnowsWhatTheLeaderWrites(t *testing.T) {
	srv, one := etcdserver.New(t), model.DefaultReplicateConfig()
	a, b := startCandidate(t, srv.Address), startCandidate(t, srv.Address)
	leader, standbys := awaitLeader(t, a, b)
	standby := standbys[0]
	node, err := OpenNode(t.Context(), nodeSettings(t, "etcd://"+srv.Address, func(s *config.Store) { s.GlobalSegmentSize = 16 * config.MiB }), builtins(), NodeOptions{Log: quiet})
	require.NoError(t, err)
	defer closeNode(t, node)
	require.NoError(t, node.Client.Put(t.Context(), "before", []byte("1"), one))
	knows := func(objects int) {
		t.Helper()
		require.Eventually(t, func() bool {
			_, text := standby.get("/metrics")
			return strings.Contains(text, "\nmaster_followed_segments 1\n") && strings.Contains(text, fmt.Sprintf("\nmaster_followed_objects %d\n", objects))
		}, 30*time.Second, 20*time.Millisecond)
	}
	knows(1)
	for i := range 9 {
		require.NoError(t, node.Client.Put(t.Context(), fmt.Sprint("key", i), []byte("2"), one))
	}
	knows(10)
	_, text := standby.get("/metrics")
	require.Contains(t, text, "\nmaster_key_count 0\n", "only the leader's objects count")

	leader.end(t)
	next, _ := awaitLeader(t, standby)
	_, text = next.get("/metrics")
	require.Contains(t, text, "\nmaster_key_count 10\n", "it knows all when it begins to serve")
	require.Eventually(t, func() bool {
		got, err := node.Client.Get(t.Context(), "key8")
		return err == nil && string(got) == "2"
	}, 30*time.Second, 20*time.Millisecond)
}

// TestALeaderWithoutEtcd: it closes its port when its lease is over, and goes on with what it knows afterwards.
func TestALeaderWithoutEtcd(t *testing.T) {
	srv := etcdserver.New(t)
	a := startCandidate(t, srv.Address)
	leader, _ := awaitLeader(t, a)
	client, err := rpcclient.Dial(leader.rpc, rpcclient.Options{})
	require.NoError(t, err)
	defer client.Close() //nolint:errcheck // Nothing is in flight.
	mounted := model.Segment{ID: model.NewUUID(), Name: "n:1", Endpoint: "n:1", Base: 1 << 40, Size: 1 << 20, Protocol: "tcp"}
	require.NoError(t, client.MountSegment(t.Context(), model.NewUUID(), mounted))
	srv.Stop()
	require.Eventually(t, func() bool { return !leader.open() }, 30*time.Second, 20*time.Millisecond)
	_, role := leader.get("/role")
	require.Equal(t, "standby", role)
	srv.Start(t)
	awaitLeader(t, a)
	require.True(t, leader.open())
	require.Eventually(t, func() bool {
		segments, err := client.Segments(t.Context())
		return err == nil && len(segments) == 1 && segments[0].ID == mounted.ID
	}, 30*time.Second, 20*time.Millisecond, "what it knew is still there")
}

// TestAMasterThatCannotServeIsNotElected: a port that is taken is found at the start, not when the leader dies.
func TestAMasterThatCannotServeIsNotElected(t *testing.T) {
	srv := etcdserver.New(t)
	ln, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // It returns at once.
	require.NoError(t, err)
	defer ln.Close() //nolint:errcheck // The test ends.
	cfg := settings(t, func(c *config.Config) {
		m := &c.Master
		m.EnableHA, m.EtcdEndpoints, m.RPCAddress, m.MetricsHost, m.MetricsPort = true, srv.Address, "127.0.0.1", "127.0.0.1", 0
		m.RPCPort = ln.Addr().(*net.TCPAddr).Port
	})
	err = Run(t.Context(), quiet, Master(cfg, []plugin.Factory{arena.Factory(), prefix.Factory()}))
	require.ErrorContains(t, err, "rpc_port")
	l := lead(t, srv.Address)
	require.Zero(t, l.Previous(), "it has not led")
}

// lead makes the test the leader.
func lead(t *testing.T, etcd string) ha.Leadership {
	t.Helper()
	b, err := open.Backend("etcd", etcd, "mooncake_cluster", open.Options{TTL: time.Minute}) // It leads on a busy machine, too.
	require.NoError(t, err)
	l, err := b.Acquire(t.Context(), "10.0.0.1:50051")
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, l.Resign(context.Background()))
		b.Close()
	})
	return l
}

// TestAHangupOfAStandby: SIGHUP is for the quotas of tenants, and does not end a master that does not lead.
func TestAHangupOfAStandby(t *testing.T) {
	srv := etcdserver.New(t)
	lead(t, srv.Address)
	quotas := filepath.Join(t.TempDir(), "quotas.yaml")
	require.NoError(t, os.WriteFile(quotas, []byte("version: 1\ntenants: []\n"), 0o600))
	c := startCandidate(t, srv.Address, func(m *config.Master) { m.EnableMultiTenants, m.TenantQuotaConnectorURI = true, quotas })
	standby := func() bool { _, state := c.get("/ha_status"); return state == "standby" }
	require.Eventually(t, standby, 30*time.Second, 20*time.Millisecond)
	require.NoError(t, syscall.Kill(syscall.Getpid(), syscall.SIGHUP))
	require.Never(t, func() bool { return !standby() }, 200*time.Millisecond, 20*time.Millisecond)
}

// TestQuotasOutliveALeader: a standby that has started before a quota was set in etcd has it when it leads.
func TestQuotasOutliveALeader(t *testing.T) {
	srv := etcdserver.New(t)
	tenants := func(m *config.Master) {
		m.EnableMultiTenants, m.TenantQuotaConnectorType = true, config.QuotasInEtcd
	}
	a, b := startCandidate(t, srv.Address, tenants), startCandidate(t, srv.Address, tenants)
	leader, standbys := awaitLeader(t, a, b)
	require.Eventually(t, func() bool {
		_, text := standbys[0].get("/ha_status")
		return strings.Contains(text, "standby")
	}, 30*time.Second, 20*time.Millisecond)
	client, err := rest.NewClient(nil, leader.admin, 10*time.Second)
	require.NoError(t, err)
	defer client.Close()
	_, err = client.SetQuota(t.Context(), "blue", 1<<20)
	require.NoError(t, err)
	leader.end(t)
	next, _ := awaitLeader(t, standbys[0])
	client, err = rest.NewClient(nil, next.admin, 10*time.Second)
	require.NoError(t, err)
	defer client.Close()
	quotas, err := client.Quotas(t.Context())
	require.NoError(t, err)
	require.Len(t, quotas, 1)
}
