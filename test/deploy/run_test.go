package deploy

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/config"
)

// environment returns the environment of a container, on loopback and with little memory.
func (s *site) environment(t *testing.T, c container, maps map[string]map[string]string) []string {
	t.Helper()
	values := map[string]string{}
	for _, from := range c.EnvFrom {
		require.Contains(t, maps, from.ConfigMapRef.Name)
		for k, v := range maps[from.ConfigMapRef.Name] {
			values[k] = v
		}
	}
	for _, v := range c.Env {
		values[v.Name] = v.Value
		if v.ValueFrom != nil {
			require.Equal(t, "status.podIP", v.ValueFrom.FieldRef.FieldPath)
			values[v.Name] = "127.0.0.1"
		}
	}
	return s.small(t, values, c.Resources.Limits["memory"])
}

// small reduces the size of the segment, after a check that the size in the file fits into the
// container.
func (s *site) small(t *testing.T, values map[string]string, limit string) []string {
	t.Helper()
	if text, ok := values["MOONCAKE_GLOBAL_SEGMENT_SIZE"]; ok && text != "0" {
		segment, err := config.ParseSize(text)
		require.NoError(t, err)
		available, err := config.ParseSize(strings.Replace(strings.TrimSuffix(limit, "i"), "m", "MiB", 1) + map[bool]string{true: "iB"}[strings.HasSuffix(limit, "i")])
		require.NoError(t, err, limit)
		assert.Greater(t, available, segment, "the limit of the container covers the segment")
		values["MOONCAKE_GLOBAL_SEGMENT_SIZE"] = "64mb"
	}
	var env []string
	for k, v := range values {
		env = append(env, k+"="+s.local(v))
	}
	return env
}

func (s *site) line(c container) []string {
	var out []string
	for _, word := range append(append([]string(nil), c.Command...), c.Args...) {
		out = append(out, s.port(strings.ReplaceAll(word, "$(POD_IP)", "127.0.0.1")))
	}
	return out
}

// serves starts a container and waits for its probes.
func (s *site) serves(t *testing.T, c container, maps map[string]map[string]string) *process {
	t.Helper()
	require.NotNil(t, c.ReadinessProbe, c.Name)
	p := start(t, s.line(c), s.environment(t, c, maps), nil)
	for _, pr := range []*probe{c.StartupProbe, c.ReadinessProbe, c.LivenessProbe} {
		s.passes(t, p, c, pr)
	}
	assert.NotContains(t, p.log(), "level=WARN", c.Name)
	return p
}

// works starts a master and a store, and waits until the master has the memory of the store.
func (s *site) works(t *testing.T, master, store container, maps map[string]map[string]string) {
	t.Helper()
	m := s.serves(t, master, maps)
	n := s.serves(t, store, maps)
	segments, err := get(t.Context(), "http://127.0.0.1:"+s.local("9003")+"/get_all_segments")
	require.NoError(t, err)
	assert.Regexp(t, `^127\.0\.0\.1:\d+\s*$`, segments)
	_, err = get(t.Context(), "http://127.0.0.1:"+s.local("8080")+"/metadata")
	require.ErrorContains(t, err, "400", "SGLang asks without a key")
	n.stop(t)
	m.stop(t)
}

func TestKubernetes(t *testing.T) {
	all := objects(t, "kubernetes/config.yaml", "kubernetes/master.yaml", "kubernetes/store.yaml", "kubernetes/engine.yaml")
	containers, maps, hosts := map[string]container{}, map[string]map[string]string{}, []string{}
	for _, m := range all {
		switch m.Kind {
		case "ConfigMap":
			maps[m.Metadata.Name] = m.Data
		case "Service":
			hosts = append(hosts, m.Metadata.Name)
		default:
			for _, c := range slices.Concat(m.Spec.Template.Spec.InitContainers, m.Spec.Template.Spec.Containers) {
				containers[c.Name] = c
			}
			require.NotNil(t, m.Spec.Template.Spec.EnableServiceLinks, m.Metadata.Name)
			assert.False(t, *m.Spec.Template.Spec.EnableServiceLinks)
		}
	}
	for _, m := range all {
		for _, p := range m.Spec.Ports {
			assert.True(t, hasPort(containers, p), "%s: port %s leads to no container", m.Metadata.Name, p.Name)
		}
	}
	s := newSite(t, hosts...)
	keeper := start(t, s.line(containers["keeper"]), nil, nil)
	s.works(t, containers["master"], containers["store"], maps)
	again := start(t, s.line(containers["store"]), s.environment(t, containers["store"], maps), nil)
	require.Eventually(t, func() bool { return strings.Contains(again.log(), "segments_found=1") }, patience, time.Millisecond, "the store finds its memory")
	again.stop(t)
	keeper.stop(t)

	engine := strings.Join(s.environment(t, containers["sglang"], maps), "\n")
	assert.Contains(t, engine, "MOONCAKE_MASTER=127.0.0.1:"+s.local("50051"))
	assert.Contains(t, engine, "MOONCAKE_GLOBAL_SEGMENT_SIZE=0")
}

func hasPort(containers map[string]container, p port) bool {
	for _, c := range containers {
		for _, own := range c.Ports {
			if own.Name == p.TargetPort && own.ContainerPort == p.Port {
				return true
			}
		}
	}
	return false
}

func TestRoleBasedGroup(t *testing.T) {
	all := objects(t, "rolebasedgroup.yaml")
	group := all[0]
	require.Equal(t, "RoleBasedGroup", group.Kind)
	containers, replicas := map[string]container{}, map[string]int{}
	for _, r := range group.Spec.Roles {
		containers[r.Name], replicas[r.Name] = r.Template.Spec.Containers[0], r.Replicas
		for _, d := range r.Dependencies {
			assert.Contains(t, replicas, d, "%s starts after a role that is there", r.Name)
		}
	}
	assert.Equal(t, map[string]int{"mooncake-master": 1, "mooncake-store": 3, "sglang-backend": 1}, replicas)
	host := "s-" + group.Metadata.Name + "-mooncake-master" // As the controller calls it.
	s := newSite(t, host)
	s.works(t, containers["mooncake-master"], containers["mooncake-store"], nil)
	for _, v := range containers["sglang-backend"].Env {
		if v.Name == "MOONCAKE_MASTER" {
			assert.Equal(t, host+":50051", v.Value)
		}
	}
	assert.Equal(t, map[string]any{
		"rolebasedgroup.workloads.x-k8s.io/name": group.Metadata.Name,
		"rolebasedgroup.workloads.x-k8s.io/role": "sglang-backend",
	}, all[1].Spec.Selector)
}

func TestCompose(t *testing.T) {
	services := compose(t)
	require.Len(t, services, 5)
	s := newSite(t, "master", "store-1", "store-2", "store-3", "client")
	run := func(name string) *process {
		v := services[name]
		require.Equal(t, "mooncake-go:master", v.Image)
		c := container{Command: append([]string{"mooncake"}, v.Command...)} // The image's entry point.
		return start(t, s.line(c), s.small(t, v.Environment, v.MemLimit), nil)
	}
	tcp := func(port string) *probe { return &probe{TCPSocket: &struct{ Port string }{port}} }
	master := run("master")
	s.passes(t, master, container{}, tcp("50051"))
	stores := map[string]*process{}
	for _, name := range []string{"store-1", "store-2", "store-3"} {
		assert.Equal(t, name, services[name].Environment["MOONCAKE_LOCAL_HOSTNAME"])
		s.ports["8088"] = freePort(t) // Each has an address of its own there.
		stores[name] = run(name)
		s.passes(t, stores[name], container{}, tcp("8088"))
	}
	segments, err := get(t.Context(), "http://127.0.0.1:"+s.local("9003")+"/get_all_segments")
	require.NoError(t, err)
	assert.Len(t, strings.Fields(segments), 3)
	for _, p := range stores {
		p.stop(t)
	}
	master.stop(t)
}
