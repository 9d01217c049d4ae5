package config

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mooncake-go/mooncake/core/config/internal/upstream"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

func TestDefaults(t *testing.T) {
	l := mustLoad(t, RoleMaster, nil, nil, "")
	require.Empty(t, l.Warnings)
	m := l.Config.Master
	require.Equal(t, 50051, m.RPCPort)
	require.Equal(t, 10*time.Second, m.LeaseTTL)
	require.Equal(t, 10*time.Minute, m.PutStartReleaseTimeout)
	require.InDelta(t, 0.9, m.EvictionHighWatermarkRatio, 0)
	require.True(t, m.EnableMetricReporting)
	s := l.Config.Store
	require.Equal(t, 4*GiB, s.GlobalSegmentSize)
	require.Equal(t, []string{"shm", "tcp"}, s.Transports)
	require.Equal(t, []string{}, s.DeviceNames)
	require.Equal(t, Plugin{Mode: "auto"}, l.Config.Plugins.Get(plugin.ID{Kind: "evict", Name: "lru"}))
	for _, e := range l.Entries() {
		require.Equal(t, "default", e.Origin.String(), e.Key)
	}
	require.Zero(t, mustLoad(t, RoleClient, nil, nil, "").Config.Store.GlobalSegmentSize)
}

func TestUpstreamDefaults(t *testing.T) {
	l, err := Load(Options{Role: RoleStore, UpstreamDefaults: true})
	require.NoError(t, err)
	require.Equal(t, "http://127.0.0.1:8080/metadata", l.Config.Store.MetadataServer)
	require.Equal(t, "0.0.0.0", l.Config.Store.LocalHostname)
	require.Zero(t, l.Config.Store.LocalBufferSize)
	o, ok := l.Origin("store.metadata_server")
	require.True(t, ok)
	require.Equal(t, "default of mooncake_client", o.String())
	// The master's defaults are upstream's.
	l, err = Load(Options{Role: RoleMaster, UpstreamDefaults: true})
	require.NoError(t, err)
	for _, e := range l.Entries() {
		require.Equal(t, "default", e.Origin.String(), e.Key)
	}
}

// Any subset of the ways to set the lease gives the value of the highest, and the origin
// names it.
func TestTheHighestLayerWins(t *testing.T) {
	t.Parallel()
	ways := []struct {
		origin string
		args   []string
		env    string
		file   string
	}{
		{"default", nil, "", ""},
		{"file FILE:1 default_kv_lease_ttl (upstream name)", nil, "", "default_kv_lease_ttl: %d\n"},
		{"env MOONCAKE_MASTER_LEASE_TTL", nil, "MOONCAKE_MASTER_LEASE_TTL=%d", ""},
		{"flag --default_kv_lease_ttl (upstream name)", []string{"-default_kv_lease_ttl", "%d"}, "", ""},
	}
	rapid.Check(t, func(rt *rapid.T) {
		var args, env []string
		file, want := "", 0
		values := map[int]int{0: 10000}
		for i := 1; i < len(ways); i++ {
			if !rapid.Bool().Draw(rt, ways[i].origin) {
				continue
			}
			// Among the values is the default, which counts when it is given.
			values[i] = rapid.SampledFrom([]int{10000, 1 + i, 50000 + i}).Draw(rt, "value")
			want = i
			for _, a := range ways[i].args {
				args = append(args, strings.ReplaceAll(a, "%d", fmt.Sprint(values[i])))
			}
			if ways[i].env != "" {
				env = append(env, fmt.Sprintf(ways[i].env, values[i]))
			}
			if ways[i].file != "" {
				file = fmt.Sprintf(ways[i].file, values[i])
			}
		}
		l := mustLoad(t, RoleMaster, args, env, file)
		require.Equal(rt, time.Duration(values[want])*time.Millisecond, l.Config.Master.LeaseTTL)
		o, _ := l.Origin("master.lease_ttl")
		require.Equal(rt, strings.ReplaceAll(ways[want].origin, "FILE", l.File), o.String())
	})
}

// The same for every key that has a flag, with a value of the layer's own.
func TestEveryKeyInEveryLayer(t *testing.T) {
	t.Parallel()
	sample := map[string][3]string{
		"string": {"a", "b", "c"}, "bool": {"true", "false", "true"}, "port": {"1001", "1002", "1003"}, "int": {"1", "2", "3"}, "number": {"0.1", "0.2", "0.3"},
		"size": {"65KiB", "66KiB", "67KiB"}, "duration": {"41s", "42s", "43s"}, "list": {"a,b", "c", "d,e"}, "plugin": {"x", "y", "z"},
		"address": {"a:1", "b:2,c:3", "etcd://d:4;e:5"}, "cluster": {"a", "b", "c"}, "tenant": {"a", "b", "c"},
		"socket": {"off", "on", "/run/x.sock"}, "keep": {"off", "keeper", "/run/y.sock"},
		"limit": {"off", "65MiB", "66MiB"},
	}
	for _, f := range schema() {
		role := map[string]Role{"master": RoleMaster, "metadata": RoleMetadata, "store": RoleStore}[f.section]
		values := sample[f.kind]
		switch {
		case f.key == "net.busy_poll":
			values = [3]string{"41us", "42us", "43us"}
		case f.key == "security.mode":
			values = [3]string{"off", "off", "off"} // the others need files
		case f.key == "security.allow":
			values = [3]string{"client=a.b,store=c.d", "client=uri:x", "reader=y.z,master/a=*.b"}
		case f.key == "security.seal":
			values = [3]string{"none", "none", "none"} // the others need keys
		case f.key == "security.seal_keys":
			values = [3]string{"file:/a", "file:/b", "vault:https://v/transit/k"}
		case f.key == "security.plaintext":
			values = [3]string{"health,data", "handshake", "etcd,rest"}
		case f.key == "plugins.lock":
			values = [3]string{"/etc/a.yaml", "/etc/b.yaml", "/etc/c.yaml"}
		case f.key == "plugins.trust":
			values = [3]string{"auto", "off", "auto"} // the others need a lock file
		case f.key == "store.metadata_server":
			values = [3]string{"P2PHANDSHAKE", "http://a/m", "http://b/m"}
		case f.key == "store.max_inflight_bytes":
			values = [3]string{"65MiB", "66MiB", "67MiB"}
		case f.key == "master.stripe_size", f.key == "log.max_size", f.key == "store.handshake_max_length":
			values = [3]string{"65MiB", "66MiB", "67MiB"}
		case f.key == "store.rest_files":
			values = [3]string{"/dev/shm/a,/dev/shm/b", "/dev/shm/c", "/dev/shm/d,/dev/hugepages/e"}
		case f.key == "store.client_min_port", f.key == "store.client_max_port":
			values = [3]string{"12301", "12302", "12303"}
		case f.key == "store.rpc_min_port", f.key == "store.rpc_max_port":
			values = [3]string{"15001", "15002", "15003"}
		case f.key == "master.put_start_release_timeout", f.key == "master.max_soft_pin_ttl":
			values = [3]string{"41m", "42m", "43m"}
		case len(f.enum) == 1:
			values = [3]string{f.enum[0], f.enum[0], f.enum[0]}
		case len(f.enum) > 1:
			values = [3]string{f.enum[0], f.enum[1], f.enum[0]}
		}
		require.NotEmpty(t, values[0], "%s has the untested kind %s", f.key, f.kind)
		if f.key == "store.numa_strict" || f.key == "master.enable_kv_events" || f.key == "master.enable_ha" || f.key == "master.cells" || f.key == "plugins.trusted_keys" || f.refuse && f.soon != "" || strings.HasPrefix(f.key, "security.token") {
			continue // refused, at all or alone; see TestSettingsOfTokens, TestStrictFile, TestUpstreamMemoryVariables, TestKVEventsNeedAnEndpointAndAName, TestHA, TestTrustedKeys and TestRefusedFeatures
		}
		if role == "" {
			role = RoleAll
		}
		sources := []struct{ args, env, file string }{
			{file: f.section + ":\n  " + f.name + ": " + values[0]},
			{env: f.env() + "=" + values[1]},
			{args: "--" + f.flag(role) + "=" + values[2]},
		}
		origins := []string{"file", "env " + f.env(), "flag --" + f.flag(role)}
		if f.kind == "list" {
			sources[0].file = f.section + ":\n  " + f.name + ": [" + values[0] + "]"
		}
		for _, mask := range []int{1, 3, 5, 7} { // each layer over those below it
			var args, env []string
			file, top := "", 0
			for i, s := range sources {
				if mask&(1<<i) == 0 {
					continue
				}
				top = i
				file += s.file
				if s.env != "" {
					env = append(env, s.env)
				}
				if s.args != "" {
					args = append(args, s.args)
				}
			}
			l := mustLoad(t, role, args, env, file)
			want, _, err := f.parse(values[top], f.unit)
			require.NoError(t, err, f.key)
			for _, e := range l.Entries() {
				if e.Key == f.key {
					require.Equal(t, Redact(f.key, format(want)), e.Value, "%s mask %d", f.key, mask)
					require.Contains(t, e.Origin.String(), origins[top], "%s mask %d", f.key, mask)
				}
			}
		}
	}
}

func TestPluginDefaultsAreALayer(t *testing.T) {
	type lru struct {
		Capacity int            `json:"capacity"`
		Ratio    float64        `json:"ratio"`
		Deep     map[string]any `json:"deep"`
	}
	id := plugin.ID{Kind: "evict", Name: "lru"}
	path := write(t, "c.json", `{"plugins": {"evict": {"lru": {"mode": "subprocess",
		"config": {"ratio": 0.5, "deep": {"b": 3},
		"a.b": true}}}}}`)
	l, err := Load(Options{Role: RoleMaster, File: path, PluginDefaults: map[plugin.ID]any{id: &lru{Capacity: 5, Ratio: 0.25, Deep: map[string]any{"a": 1, "b": 2}}}})
	require.NoError(t, err)
	require.Equal(t, Plugin{Mode: "subprocess", Env: []string{}, Read: []string{}, Write: []string{}, Config: map[string]any{
		"capacity": int64(5), "ratio": 0.5, "deep": map[string]any{"a": int64(1), "b": int64(3)}, "a.b": true,
	}}, l.Config.Plugins.Get(id))
	for key, want := range map[string]string{
		PluginKey(id, "capacity"):    "plugin default evict/lru",
		PluginKey(id, "deep.a"):      "plugin default evict/lru",
		PluginKey(id, "deep.b"):      "file " + path + ":2",
		PluginKey(id, "a.b"):         "file " + path + ":3",
		"plugins.evict.lru.mode":     "file " + path + ":1",
		"plugins.evict.lru.required": "default",
	} {
		o, ok := l.Origin(key)
		require.True(t, ok, key)
		require.Equal(t, want, o.String(), key)
	}
}

func TestSet(t *testing.T) {
	for _, kind := range plugin.Kinds() {
		l := mustLoad(t, RoleAll, []string{"--set", "plugins." + kind + ".x.mode=inprocess"}, nil, "")
		require.Equal(t, "inprocess", l.Config.Plugins.Get(plugin.ID{Kind: kind, Name: "x"}).Mode)
	}
	l := mustLoad(t, RoleAll, []string{"--set", "plugins.evict.lru.mode=subprocess", "--set=plugins.evict.lru.config.depth=3", "--set", "plugins.alloc.arena.config.name=x",
		"--set", "store.slice_size=2MiB", "--set", "plugins.evict.lru.required=no"}, nil, "")
	require.Equal(t, Plugin{Mode: "subprocess", Env: []string{}, Read: []string{}, Write: []string{}, Config: map[string]any{"depth": int64(3)}}, l.Config.Plugins.Evict["lru"])
	require.Equal(t, map[string]any{"name": "x"}, l.Config.Plugins.Alloc["arena"].Config)
	require.Equal(t, 2*MiB, l.Config.Store.SliceSize)
	o, _ := l.Origin("store.slice_size")
	require.Equal(t, "flag --set store.slice_size", o.String())
	for _, bad := range []string{"x", "store.slice=1", "store.slice_size=1", "plugins.evict.lru.mod=auto", "plugins.evict=1", "plugins.foo.x.mode=auto", "plugins.evict.lru.mode=maybe", "log=1"} {
		_, err := load(t, RoleAll, []string{"--set", bad}, nil, "")
		require.True(t, IsUsage(err), "%s: %v", bad, err)
	}
}

func TestTransportsFollowTheProtocol(t *testing.T) {
	l := mustLoad(t, RoleStore, nil, []string{"MOONCAKE_PROTOCOL=rdma"}, "")
	require.Equal(t, []string{"shm", "rdma", "tcp"}, l.Config.Store.Transports)
	o, _ := l.Origin("store.transports")
	require.Equal(t, "env MOONCAKE_PROTOCOL (upstream name)", o.String())
	l = mustLoad(t, RoleStore, []string{"--transports=shm,tcp"}, []string{"MOONCAKE_PROTOCOL=rdma"}, "")
	require.Equal(t, []string{"shm", "tcp"}, l.Config.Store.Transports)
	for name, c := range map[string]struct {
		args, env []string
		want      []string
	}{
		"off":                  {args: []string{"--shared_memory=off", "--protocol=rdma"}, want: []string{"rdma", "tcp"}},
		"off by the variable":  {env: []string{"MOONCAKE_STORE_SHARED_MEMORY=off"}, want: []string{"tcp"}},
		"named itself":         {args: []string{"--protocol=shm"}, want: []string{"shm", "tcp"}},
		"TCP and nothing else": {env: []string{"MC_FORCE_TCP=1", "MOONCAKE_PROTOCOL=rdma"}, want: []string{"tcp"}},
		"tcp asked for":        {args: []string{"--protocol=tcp"}, want: []string{"shm", "tcp"}},
	} {
		require.Equal(t, c.want, mustLoad(t, RoleStore, c.args, c.env, "").Config.Store.Transports, name)
	}
}

func TestWhereTheFileIsNamed(t *testing.T) {
	a, b := write(t, "a.yaml", "log: {level: debug}"), write(t, "b.json", `{"log": {"level": "error"}}`)
	for _, c := range []struct {
		role     Role
		args     []string
		env      []string
		explicit string
		want     string
	}{
		{RoleMaster, []string{"--config", a}, nil, "", a},
		{RoleMaster, []string{"-config_path=" + b}, []string{"MOONCAKE_CONFIG=" + a}, "", b},
		{RoleMaster, nil, []string{"MOONCAKE_CONFIG=" + a}, "", a},
		{RoleMaster, nil, []string{"MOONCAKE_CONFIG_PATH=" + a}, "", ""},
		{RoleStore, nil, []string{"MOONCAKE_CONFIG_PATH=" + b}, "", b},
		{RoleStore, nil, []string{"MOONCAKE_CONFIG_PATH=" + b, "MOONCAKE_CONFIG=" + a}, "", a},
		{RoleStore, nil, []string{"MOONCAKE_CONFIG_PATH=" + b}, a, a},
	} {
		fs, _, err := ParseArgs(c.role, c.args)
		require.NoError(t, err)
		l, err := Load(Options{Role: c.role, Flags: fs, Environ: c.env, File: c.explicit})
		require.NoError(t, err)
		require.Equal(t, c.want, l.File)
	}
	_, err := load(t, RoleMaster, []string{"--config", a, "--config_path", b}, nil, "")
	require.ErrorContains(t, err, "flag --config, with another value")
	_, err = load(t, RoleMaster, nil, []string{"MOONCAKE_CONFIG=" + filepath.Join(t.TempDir(), "none.yaml")}, "")
	require.ErrorContains(t, err, "the file was named by env MOONCAKE_CONFIG")
}

func TestProblemsCarryTheCode(t *testing.T) {
	_, err := load(t, RoleMaster, []string{"--eviction_ratio=2"}, nil, "")
	require.Equal(t, errs.InvalidParams, errs.CodeOf(err))
	require.True(t, IsUsage(fmt.Errorf("start: %w", err)))
	require.False(t, IsUsage(fmt.Errorf("other")))
	var ps Problems
	require.ErrorAs(t, err, &ps)
	require.Equal(t, "2", *ps[0].Value)
}

// A name of ours that is spelled like one of upstream's means the
// same, so that no variable or flag of an operator changes its meaning.
func TestNoNameHasTwoMeanings(t *testing.T) {
	for _, f := range schema() {
		if n, ok := upstream.Find(upstream.Environment(), f.env()); ok {
			require.Equal(t, f.key, n.Key, "variable %s", f.env())
		}
		for _, r := range Roles() {
			if n, ok := upstream.Find(r.upstreamFlags(), f.flag(r)); ok && f.flag(r) != "" {
				require.Equal(t, f.key, n.Key, "flag %s of %s", f.flag(r), r)
				require.Equal(t, f.unit, n.Unit, "flag %s of %s", f.flag(r), r)
			}
		}
	}
}

func TestTheKeysOfUpstreamNamesExist(t *testing.T) {
	keys := newLoader(Options{}).byKey
	for _, table := range upstreamTables() {
		for _, n := range table.names {
			if n.Key != "" && !strings.HasPrefix(n.Key, "plugins.transport.") { // cmd/mooncake/cli looks at those
				require.Contains(t, keys, n.Key, n.Name)
			}
		}
	}
	for _, f := range append(schema(), pluginFields("plugins.x.y")...) {
		_, note, err := f.parse(f.def, f.unit)
		require.NoError(t, err, f.key)
		require.Empty(t, note, f.key)
		require.NotEmpty(t, f.doc, f.key)
	}
}
