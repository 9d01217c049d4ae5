package deploy

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/version"
)

// masters are several masters of one pool.
type masters struct {
	procs []*process
	urls  []string // of their admin ports
}

func (m *masters) add(s *site, p *process) {
	m.procs, m.urls = append(m.procs, p), append(m.urls, "http://127.0.0.1:"+s.local("9003"))
}

// leader returns the master that leads, -1 if none or more than one says so.
func (m *masters) leader(ctx context.Context) int {
	leader := -1
	for i, url := range m.urls {
		if role, err := get(ctx, url+"/role"); err == nil && role == "leader" {
			if leader >= 0 {
				return -1
			}
			leader = i
		}
	}
	return leader
}

// has waits until the leader has as many segments, and the object if key is one. It returns the
// leader and the names of the segments.
func (m *masters) has(t *testing.T, segments int, key string) (int, []string) {
	t.Helper()
	leader, names := 0, []string(nil)
	require.Eventually(t, func() bool {
		if leader = m.leader(t.Context()); leader < 0 {
			return false
		}
		text, err := get(t.Context(), m.urls[leader]+"/get_all_segments")
		if names = strings.Fields(text); err != nil || len(names) != segments {
			return false
		}
		if key != "" {
			_, err = get(t.Context(), m.urls[leader]+"/query_key?key="+key)
		}
		return err == nil
	}, patience, 20*time.Millisecond, "a leader has %d segments and object %q", segments, key)
	slices.Sort(names)
	return leader, names
}

// takesOver ends the leader, and checks that another one has the same segments and objects, for a
// client with the given environment.
func (m *masters) takesOver(t *testing.T, segments int, env []string, end func(leader *process)) {
	t.Helper()
	leader, before := m.has(t, segments, "")
	for _, key := range []string{"greeting", "other"} {
		client(t, env, "put", key, "--value", "hello", "--replicas", "3")
	}
	client(t, env, "remove", "other") // It is answered when every ledger knows of it, and so of the puts before it.
	end(m.procs[leader])
	next, after := m.has(t, segments, "greeting")
	assert.NotEqual(t, leader, next)
	assert.Equal(t, before, after)
	assert.Contains(t, client(t, env, "get", "greeting"), "hello")
}

// client runs a verb of mooncake client to its end, and returns what it writes.
func client(t *testing.T, env []string, args ...string) string {
	t.Helper()
	p := start(t, append([]string{"mooncake", "client"}, args...), env, nil)
	<-p.done
	require.NoError(t, p.err, "%q\n%s", args, p.log())
	return p.log()
}

// ownPeerPort gives an etcd of one member a free port in place of 2380.
func ownPeerPort(t *testing.T) []string {
	t.Helper()
	peers := "http://127.0.0.1:" + freePort(t)
	return []string{"ETCD_LOG_LEVEL=warn", "ETCD_LISTEN_PEER_URLS=" + peers, "ETCD_INITIAL_ADVERTISE_PEER_URLS=" + peers, "ETCD_INITIAL_CLUSTER=default=" + peers}
}

// TestComposeHA kills the leader of the pool in the file.
func TestComposeHA(t *testing.T) {
	services := compose(t, "compose-ha.yaml")
	require.Len(t, services, 8)
	s := newSite(t, "etcd", "master-1", "master-2", "master-3", "store-1", "store-2", "store-3", "client")
	server := services["etcd"]
	assert.Equal(t, "gcr.io/etcd-development/etcd:v"+version.Version, server.Image, "the version of go.mod, which runs here")
	for i, word := range server.Command {
		server.Command[i] = strings.ReplaceAll(word, "/etcd-data", t.TempDir())
	}
	s.run(t, server, ownPeerPort(t)...)
	var m masters
	published := map[string]bool{}
	for _, name := range []string{"master-1", "master-2", "master-3"} {
		assert.Equal(t, name, services[name].Environment["MOONCAKE_MASTER_RPC_ADDRESS"])
		for _, p := range services[name].Ports {
			assert.False(t, published[p], p)
			published[p] = true
		}
		s.move(t, "50051", "9003")
		m.add(s, s.run(t, services[name]))
	}
	stores := s.stores(t, services)
	m.takesOver(t, len(stores), s.small(t, services["client"].Environment, ""), func(leader *process) { leader.kill() })
}

// etcd starts the etcd that the files expect.
func (s *site) etcd(t *testing.T) {
	t.Helper()
	url := "http://127.0.0.1:" + s.local("2379")
	server := start(t, []string{"etcd", "--data-dir=" + t.TempDir(), "--listen-client-urls=" + url, "--advertise-client-urls=" + url}, ownPeerPort(t), nil)
	s.passes(t, server, container{}, &probe{HTTPGet: &struct{ Path, Port string }{"/health", "2379"}})
}

// TestRoleBasedGroupHA stops the leader of the group with several masters.
func TestRoleBasedGroupHA(t *testing.T) {
	containers, replicas := roles(t, objects(t, "rolebasedgroup-ha.yaml")[0])
	assert.Equal(t, map[string]int{"mooncake-master": 3, "mooncake-store": 3, "sglang-backend": 1}, replicas)
	s := newSite(t, "etcd-0.etcd", "etcd-1.etcd", "etcd-2.etcd")
	s.etcd(t)
	var m masters
	for range replicas["mooncake-master"] {
		s.move(t, "50051", "9003")
		m.add(s, s.serves(t, containers["mooncake-master"], nil))
	}
	m.has(t, 0, "")
	store := s.serves(t, containers["mooncake-store"], nil)
	m.takesOver(t, 1, s.environment(t, containers["sglang-backend"], nil), func(leader *process) { leader.stop(t) })
	store.stop(t)
}

// TestKubernetesHA stops the leader as an update does.
func TestKubernetesHA(t *testing.T) {
	all := slices.Concat(kustomization(t, "kubernetes-ha"), objects(t, "kubernetes/engine.yaml"))
	d := deployed(t, all)
	of := slices.IndexFunc(all, func(o manifest) bool { return o.Kind == "StatefulSet" && o.Metadata.Name == "mooncake-master" })
	require.GreaterOrEqual(t, of, 0)
	master := d.containers["master"]
	for _, p := range []*probe{master.ReadinessProbe, master.LivenessProbe} {
		require.NotNil(t, p.HTTPGet)
		assert.Equal(t, "admin", p.HTTPGet.Port, "the RPC port of a standby is closed")
	}

	s := newSite(t, "etcd-0.etcd", "etcd-1.etcd", "etcd-2.etcd")
	s.etcd(t)
	var m masters
	for range all[of].Spec.Replicas {
		s.move(t, "50051", "9003")
		m.add(s, s.serves(t, master, d.maps))
	}
	assert.Len(t, m.procs, 3)
	m.has(t, 0, "")
	keeper := start(t, s.line(t, d.containers["keeper"], nil), nil, nil)
	store := s.serves(t, d.containers["store"], d.maps)
	m.takesOver(t, 1, s.environment(t, d.containers["sglang"], d.maps), func(leader *process) { leader.stop(t) })
	store.stop(t)
	keeper.stop(t)
}

// TestKubernetesEmbedded kills the leader with its etcd member.
func TestKubernetesEmbedded(t *testing.T) {
	all := slices.Concat(kustomization(t, "kubernetes-ha-embedded"), objects(t, "kubernetes/engine.yaml"))
	d := deployed(t, all)
	of := slices.IndexFunc(all, func(o manifest) bool { return o.Kind == "StatefulSet" && o.Metadata.Name == "mooncake-master" })
	require.GreaterOrEqual(t, of, 0)
	master, set := d.containers["master"], all[of]

	var pods, hosts, inFile, local, clients []string
	for i := range set.Spec.Replicas {
		pod := fmt.Sprintf("%s-%d", set.Metadata.Name, i)
		host := pod + "." + set.Spec.ServiceName // As a headless service calls it.
		port := freePort(t)
		pods, hosts, inFile = append(pods, pod), append(hosts, host+":2379"), append(inFile, pod+"="+host)
		local, clients = append(local, fmt.Sprintf("%s=127.0.0.1:%s:%s", pod, port, freePort(t))), append(clients, "127.0.0.1:"+port)
	}
	require.Len(t, pods, 3)
	config := d.maps["mooncake"]
	require.Equal(t, "etcd://"+strings.Join(hosts, ";"), config["MOONCAKE_MASTER"])
	config["MOONCAKE_MASTER"] = "etcd://" + strings.Join(clients, ";")
	members := slices.Index(master.Args, "--ha_members="+strings.Join(inFile, ","))
	folder := slices.Index(master.Args, "--ha_data_dir=/data/etcd")
	require.GreaterOrEqual(t, members, 0)
	require.GreaterOrEqual(t, folder, 0)
	master.Args[members] = "--ha_members=" + strings.Join(local, ",")

	s := newSite(t)
	var m masters
	for _, s.pod = range pods {
		s.move(t, "50051", "9003")
		master.Args[folder] = "--ha_data_dir=" + t.TempDir()
		m.add(s, s.starts(t, master, d.maps))
	}
	m.has(t, 0, "")
	keeper := start(t, s.line(t, d.containers["keeper"], nil), nil, nil)
	store := s.serves(t, d.containers["store"], d.maps)
	m.takesOver(t, 1, s.environment(t, d.containers["sglang"], d.maps), func(leader *process) { leader.kill() })
	store.stop(t)
	keeper.stop(t)
}
