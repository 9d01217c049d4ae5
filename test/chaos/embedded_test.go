package chaos

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/mooncake-go/mooncake/core/bench/cluster"
	"github.com/mooncake-go/mooncake/core/certs"
	"github.com/mooncake-go/mooncake/test/internal/programs"
)

// patience bounds the wait for a state; only a test that fails reaches it.
const patience = 2 * time.Minute

// site is three machines, each with a loopback address and the same ports, and a master with its etcd member.
type site struct {
	t       *testing.T
	members string
	client  int // port of etcd
	dir     string
	all     []*machine
	env     []string
	more    []string // flags of all masters
	scheme  string   // of etcd's endpoints
}

// machine is a master. Its log is kept over restarts.
type machine struct {
	*site
	name, address string
	rpc, admin    int
	folder        string
	proc          *cluster.Proc
	mu            sync.Mutex
	out           bytes.Buffer
}

func (m *machine) Write(b []byte) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.out.Write(b)
}

func (m *machine) log() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.out.String()
}

func newSite(t *testing.T) *site {
	ports, err := cluster.FreePorts(2)
	require.NoError(t, err)
	s := &site{t: t, client: ports[0], dir: t.TempDir(), env: programs.Environ("XDG_RUNTIME_DIR=" + t.TempDir())}
	var members []string
	for i := range 3 {
		name, address := "m"+strconv.Itoa(i+1), "127.0.0."+strconv.Itoa(i+1)
		s.machine(name, address)
		members = append(members, fmt.Sprintf("%s=%s:%d:%d", name, address, ports[0], ports[1]))
	}
	s.members = strings.Join(members, ",")
	return s
}

// machine adds a machine that runs nothing.
func (s *site) machine(name, address string) *machine {
	ports, err := cluster.FreePorts(2)
	require.NoError(s.t, err)
	m := &machine{site: s, name: name, address: address, rpc: ports[0], admin: ports[1], folder: filepath.Join(s.dir, name+"-"+address)}
	s.all = append(s.all, m)
	s.t.Cleanup(func() {
		m.kill()
		if s.t.Failed() {
			s.t.Logf("%s at %s\n%s", m.name, m.address, m.log())
		}
	})
	return m
}

func (m *machine) args(more ...string) []string {
	return append([]string{
		"master", "--enable_ha", "--ha_backend_type", "embedded", "--ha_members", m.members, "--rpc_address", m.address, "--ha_data_dir", m.folder,
		"--rpc_port", strconv.Itoa(m.rpc), "--metrics_host", "127.0.0.1", "--metrics_port", strconv.Itoa(m.admin),
	}, append(slices.Clone(m.more), more...)...)
}

func (m *machine) start(more ...string) {
	m.t.Helper()
	var err error
	m.proc, err = cluster.Start(cluster.Spec{Name: m.name, Program: filepath.Join(bin, "mooncake"), Args: m.args(more...), Env: m.env, Log: m})
	require.NoError(m.t, err)
}

// kill ends master and etcd member at once, as the loss of the machine does. Repeatable.
func (m *machine) kill() {
	if m.proc != nil {
		member, err := cluster.Descendant(m.proc.PID(), "mooncake_etcd")
		m.proc.Kill()
		if err == nil {
			m.gone(member)
		}
		m.proc = nil
	}
}

// gone waits until a process has ended: the kernel ends an etcd member with its master.
func (m *machine) gone(pid int) {
	m.t.Helper()
	m.eventually(func() bool { return programs.Gone(pid) }, "the etcd member outlives its master")
}

// stop ends the master in order.
func (m *machine) stop() {
	m.t.Helper()
	member, err := cluster.Descendant(m.proc.PID(), "mooncake_etcd")
	require.NoError(m.t, err)
	ctx, cancel := context.WithTimeout(m.t.Context(), patience)
	defer cancel()
	require.NoError(m.t, m.proc.Stop(ctx))
	m.gone(member)
	m.proc = nil
}

// ends waits for the end of a master that cannot go on, and returns what it says on its last lines.
func (m *machine) ends() string {
	m.t.Helper()
	ctx, cancel := context.WithTimeout(m.t.Context(), patience)
	defer cancel()
	code, err := m.proc.Wait(ctx)
	require.NoError(m.t, err)
	require.Positive(m.t, code)
	text := m.proc.Tail()
	m.proc = nil
	return text
}

// health is what the admin port says.
type health struct {
	Role, Leader string
	Etcd         string `json:"etcd_member"`
}

func (m *machine) health() (h health) {
	ctx, cancel := context.WithTimeout(m.t.Context(), time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://127.0.0.1:"+strconv.Itoa(m.admin)+"/health", nil)
	if err != nil {
		return h
	}
	req.Close = true
	r, err := http.DefaultClient.Do(req)
	if err != nil {
		return h
	}
	defer r.Body.Close() //nolint:errcheck // It is read.
	text, err := io.ReadAll(r.Body)
	if err == nil {
		_ = json.Unmarshal(text, &h) // Where it fails, h says so.
	}
	return h
}

func (s *site) eventually(ok func() bool, what string) {
	s.t.Helper()
	require.Eventually(s.t, ok, patience, 20*time.Millisecond, what)
}

// leader waits until one of the running masters serves.
func (s *site) leader() (leader *machine) {
	s.t.Helper()
	s.eventually(func() bool {
		leader = nil
		for _, m := range s.all {
			if m.proc != nil && m.health().Role == "leader" {
				leader = m
			}
		}
		return leader != nil
	}, "no master leads")
	return leader
}

// startAll starts the three machines and waits for a leader.
func (s *site) startAll() *machine {
	s.t.Helper()
	for _, m := range s.all {
		m.start()
	}
	return s.leader()
}

// directory is how clients find the leader.
func (s *site) directory() string {
	var at []string
	for _, m := range s.all {
		at = append(at, s.scheme+m.etcd())
	}
	return "etcd://" + strings.Join(at, ",")
}

func (m *machine) etcd() string { return net.JoinHostPort(m.address, strconv.Itoa(m.client)) }

// store starts a store and waits until it can be used.
func (s *site) store() {
	s.t.Helper()
	p, err := cluster.Start(cluster.Spec{Name: "store", Program: filepath.Join(bin, "mooncake"), Env: s.env, Args: []string{
		"store", "--master_server_address", s.directory(), "--local_hostname", "127.0.0.1", "--global_segment_size", "64MiB", "--shared_memory", "off", "--admin_socket", "off",
	}})
	require.NoError(s.t, err)
	s.t.Cleanup(p.Kill)
	s.eventually(func() bool { return s.call("put", "probe", "--value", "x").Code == 0 }, "the store is not mounted")
}

// call runs a verb of mooncake client.
func (s *site) call(args ...string) programs.Result {
	return programs.Run(s.t, programs.Spec{
		Program: filepath.Join(bin, "mooncake"), Env: s.env, Args: append([]string{"client"}, append(args, "--master_server_address", s.directory(), "--local_hostname", "127.0.0.1")...),
	})
}

func (s *site) put(key, value string) {
	s.t.Helper()
	r := s.call("put", key, "--value", value)
	require.Zero(s.t, r.Code, r.Stderr)
}

// reads waits until a key can be read.
func (s *site) reads(key, value string) {
	s.t.Helper()
	s.eventually(func() bool {
		r := s.call("get", key)
		return r.Code == 0 && strings.Contains(r.Stdout, value)
	}, "key "+key)
}

// voters are the peer URLs of the etcd members that vote, as one that serves lists them.
func (s *site) voters(at *machine) (urls []string) {
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{at.etcd()}, Logger: zap.NewNop()})
	require.NoError(s.t, err)
	defer c.Close() //nolint:errcheck // Nothing is in flight.
	ctx, cancel := context.WithTimeout(s.t.Context(), 5*time.Second)
	defer cancel()
	r, err := c.MemberList(ctx)
	if err != nil {
		return nil
	}
	for _, m := range r.Members {
		if !m.IsLearner && len(m.ClientURLs) > 0 {
			urls = append(urls, m.PeerURLs...)
		}
	}
	slices.Sort(urls)
	return urls
}

func (m *machine) logs(text string) {
	m.t.Helper()
	m.eventually(func() bool { return strings.Contains(m.log(), text) }, "log of "+m.name+": "+text)
}

// TestEmbeddedLeaderKill: a machine is lost with its etcd member, and is back with its data.
func TestEmbeddedLeaderKill(t *testing.T) {
	s := newSite(t)
	s.startAll()
	s.store()
	for range 3 {
		leader := s.leader()
		s.put("a"+strconv.Itoa(leader.rpc), "value")
		leader.kill()
		next := s.leader()
		require.NotEqual(t, leader, next)
		s.reads("a"+strconv.Itoa(leader.rpc), "value")
		leader.start()
		leader.logs(`begins="with its data"`)
		s.eventually(func() bool { return leader.health().Etcd == "running" && len(s.voters(leader)) == 3 }, "it serves as an etcd member again")
	}
}

// TestEmbeddedWithTLS: certificates on all connections of the etcd members, which take no others.
func TestEmbeddedWithTLS(t *testing.T) {
	s := newSite(t)
	folder := certs.Folder(t.TempDir())
	ca, err := folder.Init("test", time.Hour, time.Now())
	require.NoError(t, err)
	node, err := folder.Issue("masters", []string{"127.0.0.1", "127.0.0.2", "127.0.0.3"}, time.Hour, time.Now())
	require.NoError(t, err)
	s.scheme = "https://"
	s.more = []string{"--set", "store.ha_ca_file=" + ca.Cert, "--set", "store.ha_cert_file=" + node.Cert, "--set", "store.ha_key_file=" + node.Key}
	s.env = append(s.env, "MOONCAKE_STORE_HA_CA_FILE="+ca.Cert, "MOONCAKE_STORE_HA_CERT_FILE="+node.Cert, "MOONCAKE_STORE_HA_KEY_FILE="+node.Key)
	leader := s.startAll()
	s.store()
	s.put("kept", "value")
	leader.kill()
	require.NoError(t, os.RemoveAll(leader.folder))
	leader.start()
	leader.logs("has caught up and votes")
	s.reads("kept", "value")

	s.scheme, s.env = "http://", programs.Environ()
	r := s.call("get", "kept")
	require.NotZero(t, r.Code, "without a certificate")
}

// TestEmbeddedMemberKill: the etcd member alone ends, and the master starts it again. SIGTERM ends both.
func TestEmbeddedMemberKill(t *testing.T) {
	s := newSite(t)
	leader := s.startAll()
	member, err := cluster.Descendant(leader.proc.PID(), "mooncake_etcd")
	require.NoError(t, err)
	p, err := os.FindProcess(member)
	require.NoError(t, err)
	require.NoError(t, p.Kill())
	leader.logs("it is started again")
	s.eventually(func() bool {
		again, err := cluster.Descendant(leader.proc.PID(), "mooncake_etcd")
		return err == nil && again != member && len(s.voters(leader)) == 3
	}, "the etcd member runs again")
	s.leader().stop()
	s.leader()
}

// TestEmbeddedAllKilled: the etcd members have their data, and the pool its objects.
func TestEmbeddedAllKilled(t *testing.T) {
	s := newSite(t)
	s.startAll()
	s.store()
	s.put("kept", "value")
	for range 2 {
		for _, m := range s.all {
			m.kill()
		}
		s.startAll()
		s.reads("kept", "value")
	}
	for _, m := range s.all {
		require.Equal(t, 2, strings.Count(m.log(), `begins="with its data"`))
	}
}

// TestEmbeddedFolderLost: a machine that has lost its data replaces its own member, and votes then.
func TestEmbeddedFolderLost(t *testing.T) {
	s := newSite(t)
	s.startAll()
	s.store()
	s.put("kept", "value")
	lost := s.all[2]
	lost.kill()
	require.NoError(t, os.RemoveAll(lost.folder))
	lost.start()
	lost.logs("the data of this master's etcd member is lost")
	lost.logs("has caught up and votes")
	s.eventually(func() bool { return len(s.voters(lost)) == 3 }, "all vote")
	s.all[0].kill() // Without the new member's vote, no master could lead now.
	s.leader()
	s.reads("kept", "value")
}

// TestEmbeddedOtherMachine: another machine takes the place of one, at another address, and the old one does not
// come back.
func TestEmbeddedOtherMachine(t *testing.T) {
	s := newSite(t)
	s.startAll()
	old := s.all[2]
	before := s.members
	s.members = strings.Replace(before, old.address, "127.0.0.4", 1)
	other := s.machine("m3", "127.0.0.4")

	other.start()
	require.Contains(t, other.ends(), "another master has this name", "the old one still runs")
	old.kill()
	other.start()
	other.logs("has caught up and votes")
	s.eventually(func() bool {
		v := s.voters(other)
		return len(v) == 3 && slices.ContainsFunc(v, func(u string) bool { return strings.Contains(u, "127.0.0.4") })
	}, "the new machine is in")

	s.members = before
	old.start()
	require.Contains(t, old.ends(), "another machine took its place")
	s.leader()
}

// TestEmbeddedOtherAddress: a machine keeps its data and gets another address.
func TestEmbeddedOtherAddress(t *testing.T) {
	s := newSite(t)
	s.startAll()
	s.store()
	s.put("kept", "value")
	m := s.all[2]
	m.stop()
	s.members = strings.Replace(s.members, m.address, "127.0.0.4", 1)
	m.address = "127.0.0.4"
	m.start()
	m.logs(`begins="with its data"`)
	m.logs("this master's etcd member has another address")
	s.eventually(func() bool {
		v := s.voters(m)
		return len(v) == 3 && slices.ContainsFunc(v, func(u string) bool { return strings.Contains(u, "127.0.0.4") })
	}, "the machine is in at its new address")
	s.all[0].kill() // Without the vote of the machine that moved, no master could lead now.
	s.leader()
	s.reads("kept", "value")
}

// TestEmbeddedQuorum: no master leads without a majority, and nothing is lost by that. A machine that lost its data
// waits for the majority.
func TestEmbeddedQuorum(t *testing.T) {
	s := newSite(t)
	s.startAll()
	s.store()
	s.put("kept", "value")
	s.all[0].kill()
	s.all[1].kill()
	require.NoError(t, os.RemoveAll(s.all[0].folder))
	s.eventually(func() bool { return s.all[2].health().Role == "standby" }, "one of three does not lead")
	s.all[0].start()
	s.all[0].logs("a majority of the other masters, to replace its etcd member")
	require.Equal(t, "waiting", s.all[0].health().Etcd)
	require.Equal(t, "standby", s.all[2].health().Role)
	s.all[1].start()
	s.leader()
	s.reads("kept", "value")
	s.all[0].logs("has caught up and votes")
}

// TestEmbeddedFirstStart: a cluster begins when all of its masters are there.
func TestEmbeddedFirstStart(t *testing.T) {
	s := newSite(t)
	s.all[0].start()
	s.all[1].start()
	s.all[0].logs("the masters m3 to start")
	s.all[1].logs("the masters m3 to start")
	require.Equal(t, "waiting", s.all[0].health().Etcd)
	s.all[2].start()
	s.leader()
	for _, m := range s.all {
		m.logs(`begins="a new cluster"`)
	}
}

// TestEmbeddedRefusals: what cannot work ends with what to do about it.
func TestEmbeddedRefusals(t *testing.T) {
	s := newSite(t)
	a, b := s.all[0], s.all[1]

	alone := filepath.Join(t.TempDir(), "mooncake")
	require.NoError(t, os.Link(filepath.Join(bin, "mooncake"), alone))
	r := programs.Run(t, programs.Spec{Program: alone, Args: a.args(), Env: []string{"PATH=/nonexistent"}})
	require.NotZero(t, r.Code)
	require.Contains(t, r.Stderr, "the program of etcd members is missing")
	require.Contains(t, r.Stderr, "--ha_member_program")

	a.start("--ha_member_program", filepath.Join(bin, "mooncake_etcd"))
	a.logs("the masters m2, m3 to start")
	b.start("--ha_member", "m1")
	require.Contains(t, b.ends(), "another master has this name")
	b.folder = a.folder
	b.start("--ha_member", "m2")
	require.Contains(t, b.ends(), "another master of this machine uses")
	s.machine("m1", "127.0.0.9").start()
	require.Contains(t, s.all[3].ends(), "0 entries of ha_members have the rpc_address 127.0.0.9")
}
