package config

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mooncake-go/mooncake/sdk/plugin"
)

func TestRedact(t *testing.T) {
	for _, c := range [][3]string{
		{"plugins.transport.x.config.password", "hush", "******"},
		{"plugins.transport.x.config.authToken", "hush", "******"},
		{"MOONCAKE_AWS_SECRET_ACCESS_KEY", "hush", "******"},
		{"store.metadata_server", "http://user:hush@host/metadata", "http://user:******@host/metadata"},
		{"store.metadata_server", "redis://:hush@host", "redis://:******@host"},
		{"store.metadata_server", "http://host:80/a@b", "http://host:80/a@b"},
		{"log.level", "info", "info"},
		{"security.tokens", "reader=a", "reader=a"},
		{"security.token_issuer --security_token_issuer", "https://a", "https://a"},
		{"security.token_file", "hush", "******"}, // It may be the token itself.
		{"x.secret", "", ""},
	} {
		require.Equal(t, c[2], Redact(c[0], c[1]), c[0])
	}
}

func TestSecretsAreNotShown(t *testing.T) {
	l := mustLoad(t, RoleAll, nil, nil, `
store: {metadata_server: "http://user:hush@host/metadata"}
plugins: {transport: {x: {config: {secret: hush, nested: {api_key: 77001}, list: ["http://u:hush@h"], plain: shown}}}}
`)
	out, err := l.Dump()
	require.NoError(t, err)
	text := string(out)
	for _, e := range l.Entries() {
		text += e.Value
	}
	require.NotContains(t, text, "hush")
	require.NotContains(t, text, "77001")
	require.Contains(t, text, "shown")
	_, err = load(t, RoleAll, []string{"--set", "store.metadata_server=ftp://u:hush@h"}, nil, "")
	require.Error(t, err)
	require.NotContains(t, err.Error(), "hush")
	require.Equal(t, "hush", l.Config.Plugins.Transport["x"].Config["secret"])
}

// What Dump prints loads back to the same configuration.
func TestDumpRoundTrip(t *testing.T) {
	t.Parallel()
	scalar := rapid.OneOf(rapid.Just[any](nil), rapid.Bool().AsAny(), rapid.Int64().AsAny(), rapid.Float64Range(-1e9, 1e9).AsAny(), rapid.StringMatching(`[ -~]{0,8}`).AsAny())
	name := rapid.StringMatching(`[a-z.:#'"0 -]{1,6}`)
	rapid.Check(t, func(rt *rapid.T) {
		settings := map[string]any{}
		for range rapid.IntRange(0, 4).Draw(rt, "n") {
			v := scalar.Draw(rt, "value")
			switch rapid.IntRange(0, 2).Draw(rt, "shape") {
			case 1:
				v = []any{v, map[string]any{name.Draw(rt, "in list"): v}}
			case 2:
				v = map[string]any{name.Draw(rt, "inner"): v}
			}
			settings[name.Draw(rt, "name")] = v
		}
		l, err := Load(Options{
			Role: RoleStore, PluginDefaults: map[plugin.ID]any{{Kind: "transport", Name: "tcp"}: settings},
			Environ: []string{
				"MOONCAKE_STORE_LOCAL_HOSTNAME=" + rapid.StringMatching(`[a-z'"#:{} -]{1,8}x`).Draw(rt, "host"),
				"MOONCAKE_STORE_TRANSFER_TIMEOUT=" + rapid.SampledFrom([]string{"1ms", "1m30s", "2h", "1500us"}).Draw(rt, "timeout"),
				"MOONCAKE_STORE_DEVICE_NAMES=" + rapid.SampledFrom([]string{"", "a", "a,b", "no,null"}).Draw(rt, "devices"),
			},
		})
		require.NoError(rt, err)
		out, err := l.Dump()
		require.NoError(rt, err)
		back, err := Check(RoleStore, write(t, "dump.yaml", string(out)), nil)
		require.NoError(rt, err, string(out))
		require.Equal(rt, l.Config, back.Config, string(out))
	})
}

func TestDumpIsDeterministic(t *testing.T) {
	file := "plugins: {evict: {lru: {config: {a: 1, b: {c: 2, d: 3}}}, lfu: {}}, alloc: {arena: {}}}\n"
	first, err := mustLoad(t, RoleAll, nil, nil, file).Dump()
	require.NoError(t, err)
	for range 10 {
		l := mustLoad(t, RoleAll, nil, nil, file)
		again, err := l.Dump()
		require.NoError(t, err)
		require.Equal(t, string(first), string(again))
	}
	require.Equal(t, 1, strings.Count(string(first), "lfu"))
}
