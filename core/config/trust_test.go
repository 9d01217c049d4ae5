package config

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTrustOfPlugins(t *testing.T) {
	l := mustLoad(t, RoleMaster, []string{"--plugin_lock=/etc/lock.yaml", "--plugin-trust", "tofu"}, nil, "")
	require.Equal(t, "/etc/lock.yaml", l.Config.Plugins.Lock)
	require.Equal(t, "tofu", l.Config.Plugins.Trust)
	l = mustLoad(t, RoleStore, nil, []string{"MOONCAKE_PLUGINS_TRUST=off"}, "plugins: {lock: /etc/lock.yaml, trust: locked}\n")
	require.Equal(t, "off", l.Config.Plugins.Trust)
	require.Equal(t, "auto", mustLoad(t, RoleStore, nil, nil, "").Config.Plugins.Trust)

	for text, want := range map[string]string{
		"plugins: {trust: locked}\n":                                `:1: plugins.trust = "locked": needs a lock file: plugins.lock`,
		"plugins: {trust: tofu}\n":                                  `:1: plugins.trust = "tofu": needs a lock file: plugins.lock`,
		"plugins: {trust: all}\n":                                   `:1: plugins.trust = "all": must be one of auto, locked, tofu, off`,
		"plugins:\n  lock: plugins.lock.yaml\n":                     `:2: plugins.lock = "plugins.lock.yaml": must be an absolute path`,
		"plugins: {evict: {x: {env: [A=b]}}}\n":                     `:1: plugins.evict.x.env = "A=b": must be the name of an environment variable`,
		"plugins: {evict: {x: {env: ['*']}}}\n":                     `:1: plugins.evict.x.env = "*": must be the name`,
		"plugins: {alloc: {x: {env: [PLUGIN_CLIENT_CERT]}}}\n":      `:1: plugins.alloc.x.env = "PLUGIN_CLIENT_CERT": is reserved`,
		"plugins: {alloc: {x: {env: [MOONCAKE_PLUGIN_DATA_FD]}}}\n": `is reserved`,
		"plugins: {tier: {x: {write: [data]}}}\n":                   `:1: plugins.tier.x.write = "data": must be an absolute path`,
		"plugins: {tier: {x: {read: [/a, b]}}}\n":                   `:1: plugins.tier.x.read = "b": must be an absolute path`,
		"plugins: {sandbox: maybe}\n":                               `:1: plugins.sandbox = "maybe": must be one of auto, off, require`,
	} {
		_, err := load(t, RoleMaster, nil, nil, text)
		require.ErrorContains(t, err, want, text)
	}
}

func TestTrustedKeys(t *testing.T) {
	const key = "RWSb5yFZxF7i+ItSQqkFEtl6Q00yZged6HSEpNoSTsvFty7j4eeUOkLQ"
	const lock = "plugins: {lock: /etc/lock.yaml"
	for _, l := range []*Loaded{
		mustLoad(t, RoleStore, nil, nil, lock+", trusted_keys: ["+key+", /etc/set.pub]}\n"),
		mustLoad(t, RoleStore, nil, []string{"MOONCAKE_PLUGINS_TRUSTED_KEYS=" + key + ",/etc/set.pub"}, lock+"}\n"),
		mustLoad(t, RoleStore, []string{"--plugin_trusted_keys=" + key + ",/etc/set.pub"}, nil, lock+"}\n"),
	} {
		require.Equal(t, []string{key, "/etc/set.pub"}, l.Config.Plugins.TrustedKeys)
	}
	for text, want := range map[string]string{
		lock + ", trusted_keys: [set.pub]}\n":                    `plugins.trusted_keys = "set.pub": must be a public key of minisign`,
		lock + ", trusted_keys: [" + key[1:] + "]}\n":            `must be a public key of minisign`,
		"plugins: {trusted_keys: [" + key + "]}\n":               `needs a lock file, which the keys sign: plugins.lock`,
		lock + ", trusted_keys: [" + key + "], trust: tofu}\n":   `plugins.trust = "tofu": runs programs without a signature`,
		lock + ", trusted_keys: [/etc/set.pub], trust: 'off'}\n": `plugins.trust = "off": runs programs without a signature`,
	} {
		_, err := load(t, RoleMaster, nil, nil, text)
		require.ErrorContains(t, err, want, text)
	}
}

func TestLimitsOfPlugins(t *testing.T) {
	want := PluginLimits{Memory: GiB, Files: 1024, Processes: 64, CPU: 1.5, Required: true}
	for _, text := range []string{
		"plugins: {evict: {x: {env: [HF_HOME, CUDA_VISIBLE_DEVICES], limits: {memory: 1GiB, files: 1024, processes: 64, cpu: '1.5', required: true}}}}\n",
		"plugins.evict.x.limits:\n  memory: 1GiB\n  files: 1024\n  processes: 64\n  cpu: 1.5\n  required: true\nplugins.evict.x.env: [HF_HOME, CUDA_VISIBLE_DEVICES]\n",
	} {
		l := mustLoad(t, RoleMaster, nil, nil, text)
		require.Equal(t, want, l.Config.Plugins.Evict["x"].Limits, text)
		require.Equal(t, []string{"HF_HOME", "CUDA_VISIBLE_DEVICES"}, l.Config.Plugins.Evict["x"].Env)
		require.Equal(t, ModeAuto, l.Config.Plugins.Evict["x"].Mode)
	}
	l := mustLoad(t, RoleMaster, []string{"--set=plugins.transport.x.limits.files=7", "--set=plugins.transport.x.env=A,B"}, nil, "plugins: {transport: {x: {limits: {files: 5, cpu: 2}}}}")
	require.Equal(t, PluginLimits{Files: 7, CPU: 2}, l.Config.Plugins.Transport["x"].Limits)
	require.Equal(t, []string{"A", "B"}, l.Config.Plugins.Transport["x"].Env)

	for text, want := range map[string]string{
		"plugins: {evict: {x: {limits: 5}}}\n":                `:1: plugins.evict.x.limits: must be a mapping`,
		"plugins: {evict: {x: {limits: {memroy: 1GiB}}}}\n":   `did you mean plugins.evict.x.limits.memory?`,
		"plugins: {evict: {x: {limit: {memory: 1GiB}}}}\n":    `did you mean plugins.evict.x.limits?`,
		"plugins: {evict: {x: {limits: {memory: {a: 1}}}}}\n": `must be a size`,
		"plugins: {evict: {x: {limits: {files: -1}}}}\n":      `from 0 to 1048576`,
		"plugins: {evict: {x: {limits: {cpu: NaN}}}}\n":       `plugins.evict.x.limits.cpu`,
	} {
		_, err := load(t, RoleMaster, nil, nil, text)
		require.ErrorContains(t, err, want, text)
	}
	_, err := load(t, RoleMaster, []string{"--set=plugins.evict.x.limits.file=1"}, nil, "")
	require.ErrorContains(t, err, "limits.<limit>")
}
