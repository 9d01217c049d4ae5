package deploy

import (
	"regexp"
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
			value, known := map[string]string{"status.podIP": "127.0.0.1", "metadata.name": s.pod}[v.ValueFrom.FieldRef.FieldPath]
			require.True(t, known, v.Name)
			values[v.Name] = value
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

// reference is how an argument refers to the environment.
var reference = regexp.MustCompile(`\$\(\w+\)`)

// line returns the command line of a container with the given environment, on loopback.
func (s *site) line(t *testing.T, c container, env []string) []string {
	t.Helper()
	values := map[string]string{}
	for _, kv := range env {
		name, value, _ := strings.Cut(kv, "=")
		values["$("+name+")"] = value
	}
	var out []string
	for _, word := range slices.Concat(c.Command, c.Args) {
		out = append(out, reference.ReplaceAllStringFunc(s.addresses(word), func(r string) string {
			require.Contains(t, values, r, word)
			return values[r]
		}))
	}
	return out
}

// plaintext is the one warning of a process without security.mode.
var plaintext = regexp.MustCompile(`(?m)^.* level=WARN msg="security\.mode is off: .*$`)

// serves starts a container and waits for its probes. It warns of nothing but of plaintext ports.
func (s *site) serves(t *testing.T, c container, maps map[string]map[string]string) *process {
	t.Helper()
	p := s.starts(t, c, maps)
	log := p.log()
	assert.Len(t, plaintext.FindAllString(log, -1), 1, c.Name)
	assert.NotContains(t, plaintext.ReplaceAllString(log, ""), "level=WARN", c.Name)
	return p
}

// starts starts a container and waits for its probes.
func (s *site) starts(t *testing.T, c container, maps map[string]map[string]string) *process {
	t.Helper()
	require.NotNil(t, c.ReadinessProbe, c.Name)
	env := s.environment(t, c, maps)
	p := start(t, s.line(t, c, env), env, nil)
	for _, pr := range []*probe{c.StartupProbe, c.ReadinessProbe, c.LivenessProbe} {
		s.passes(t, p, c, pr)
	}
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
	d := deployed(t, slices.Concat(kustomization(t, "kubernetes"), objects(t, "kubernetes/engine.yaml")))
	s := newSite(t, d.services...)
	keeper := start(t, s.line(t, d.containers["keeper"], nil), nil, nil)
	s.works(t, d.containers["master"], d.containers["store"], d.maps)
	env := s.environment(t, d.containers["store"], d.maps)
	again := start(t, s.line(t, d.containers["store"], env), env, nil)
	require.Eventually(t, func() bool { return strings.Contains(again.log(), "segments_found=1") }, patience, time.Millisecond, "the store finds its memory")
	again.stop(t)
	keeper.stop(t)

	engine := strings.Join(s.environment(t, d.containers["sglang"], d.maps), "\n")
	assert.Contains(t, engine, "MOONCAKE_MASTER=127.0.0.1:"+s.local("50051"))
	assert.Contains(t, engine, "MOONCAKE_GLOBAL_SEGMENT_SIZE=0")
}

// roles returns the container of each role of a RoleBasedGroup, and how many there are.
func roles(t *testing.T, group manifest) (containers map[string]container, replicas map[string]int) {
	t.Helper()
	require.Equal(t, "RoleBasedGroup", group.Kind)
	containers, replicas = map[string]container{}, map[string]int{}
	for _, r := range group.Spec.Roles {
		containers[r.Name], replicas[r.Name] = r.Template.Spec.Containers[0], r.Replicas
		for _, d := range r.Dependencies {
			assert.Contains(t, replicas, d, "%s starts after a role that is there", r.Name)
		}
	}
	return containers, replicas
}

func TestRoleBasedGroup(t *testing.T) {
	all := objects(t, "rolebasedgroup.yaml")
	group := all[0]
	containers, replicas := roles(t, group)
	assert.Equal(t, map[string]int{"mooncake-master": 1, "mooncake-store": 3, "sglang-backend": 1}, replicas)
	host := "s-" + group.Metadata.Name + "-mooncake-master" // As the controller calls it.
	s := newSite(t, host)
	s.works(t, containers["mooncake-master"], containers["mooncake-store"], nil)
	for _, v := range containers["sglang-backend"].Env {
		if v.Name == "MOONCAKE_MASTER" {
			assert.Equal(t, host+":50051", v.Value)
		}
	}
	assert.Equal(t, selector{
		"rolebasedgroup.workloads.x-k8s.io/name": group.Metadata.Name,
		"rolebasedgroup.workloads.x-k8s.io/role": "sglang-backend",
	}, all[1].Spec.Selector)
}

// run starts a service of a compose file, with further variables.
func (s *site) run(t *testing.T, v service, extra ...string) *process {
	t.Helper()
	env := append(s.small(t, v.Environment, v.MemLimit), extra...)
	c := container{Command: v.Command}
	if v.Image == "mooncake-go:master" {
		c.Command = append([]string{"mooncake"}, v.Command...) // The image's entry point.
	}
	return start(t, s.line(t, c, env), env, nil)
}

// stores starts the three stores of a compose file, and waits until they serve.
func (s *site) stores(t *testing.T, services map[string]service) []*process {
	t.Helper()
	var all []*process
	for _, name := range []string{"store-1", "store-2", "store-3"} {
		require.Equal(t, "mooncake-go:master", services[name].Image)
		assert.Equal(t, name, services[name].Environment["MOONCAKE_LOCAL_HOSTNAME"])
		s.move(t, "8088")
		p := s.run(t, services[name])
		s.passes(t, p, container{}, tcp("8088"))
		all = append(all, p)
	}
	return all
}

func tcp(port string) *probe { return &probe{TCPSocket: &struct{ Port string }{port}} }

func TestCompose(t *testing.T) {
	services := compose(t, "compose.yaml")
	require.Len(t, services, 5)
	require.Equal(t, "mooncake-go:master", services["master"].Image)
	s := newSite(t, "master", "store-1", "store-2", "store-3", "client")
	master := s.run(t, services["master"])
	s.passes(t, master, container{}, tcp("50051"))
	stores := s.stores(t, services)
	segments, err := get(t.Context(), "http://127.0.0.1:"+s.local("9003")+"/get_all_segments")
	require.NoError(t, err)
	assert.Len(t, strings.Fields(segments), 3)
	for _, p := range stores {
		p.stop(t)
	}
	master.stop(t)
}
