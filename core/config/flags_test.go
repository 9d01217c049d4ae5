package config

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
)

func TestGflagsSyntax(t *testing.T) {
	for _, c := range []struct {
		args []string
		rest []string
		want map[string]string
	}{
		{[]string{"-rpc_port", "1"}, nil, map[string]string{"rpc_port": "1"}},
		{[]string{"-rpc_port=1"}, nil, map[string]string{"rpc_port": "1"}},
		{[]string{"--rpc_port", "1"}, nil, map[string]string{"rpc_port": "1"}},
		{[]string{"--rpc-port=1"}, nil, map[string]string{"rpc_port": "1"}},
		{[]string{"--rpc_port=1", "--rpc_port=2"}, nil, map[string]string{"rpc_port": "2"}},
		{[]string{"-enable_ha"}, nil, map[string]string{"enable_ha": "true"}},
		{[]string{"--noenable_ha"}, nil, map[string]string{"enable_ha": "false"}},
		{[]string{"-noenable-ha"}, nil, map[string]string{"enable_ha": "false"}},
		{[]string{"--enable_ha=f"}, nil, map[string]string{"enable_ha": "f"}},
		{[]string{"--enable_ha", "pos"}, []string{"pos"}, map[string]string{"enable_ha": "true"}},
		{[]string{"--cluster_id", "--enable_ha"}, nil, map[string]string{"cluster_id": "--enable_ha"}},
		{[]string{"--cluster_id", "-noenable_ha", "x"}, []string{"x"}, map[string]string{"cluster_id": "-noenable_ha"}},
		{[]string{"--cluster_id=a=b"}, nil, map[string]string{"cluster_id": "a=b"}},
		{[]string{"--cluster_id="}, nil, map[string]string{"cluster_id": ""}},
		{[]string{"-v=1"}, nil, map[string]string{"v": "1"}},
		{[]string{"-v", "1"}, nil, map[string]string{"v": "1"}},
		{[]string{"a", "--", "-rpc_port", "1"}, []string{"a", "-rpc_port", "1"}, map[string]string{}},
		{[]string{"-"}, []string{"-"}, map[string]string{}},
		{[]string{"--plugin_dir=a", "--plugin-dir", "b,c"}, nil, map[string]string{"plugin_dir": "a,b,c"}},
	} {
		fs, rest, err := ParseArgs(RoleMaster, c.args)
		require.NoError(t, err, c.args)
		require.ElementsMatch(t, c.rest, rest, c.args)
		got := map[string]string{}
		fs.Visit(func(f *pflag.Flag) { got[f.Name] = f.Value.String() })
		require.Equal(t, c.want, got, c.args)
	}
}

func TestBadFlags(t *testing.T) {
	for _, c := range []struct {
		role Role
		arg  []string
		want string
	}{
		{RoleMaster, []string{"--lease_tl=5s"}, "flag --lease_tl: unknown flag; did you mean --lease_ttl?"},
		{RoleMaster, []string{"-defalt_kv_lease_ttl=5s"}, "flag --defalt_kv_lease_ttl: unknown flag; did you mean --default_kv_lease_ttl?"},
		{RoleMaster, []string{"-x"}, "flag --x: unknown flag"},
		{RoleMaster, []string{"--noenable_h"}, "did you mean --enable_ha?"},
		{RoleMaster, []string{"--global_segment_size=1"}, "unknown flag"},
		{RoleMaster, []string{"--norpc_port"}, "unknown flag"},
		{RoleMaster, []string{"--noenable_ha=true"}, "unknown flag"},
		{RoleMaster, []string{"--rpc_port"}, "flag --rpc_port: needs a value; write --rpc_port=VALUE"},
		{RoleStore, []string{"--enable_ha"}, "unknown flag"},
		{RoleMetadata, []string{"--rpc_port=1"}, "unknown flag"},
	} {
		_, _, err := ParseArgs(c.role, c.arg)
		require.True(t, IsUsage(err), c.arg)
		require.ErrorContains(t, err, c.want, c.arg)
	}
	_, _, err := ParseArgs(RoleMaster, []string{"--helpshort"})
	require.ErrorIs(t, err, pflag.ErrHelp)
}

func TestShorthandsAndForeignFlagsAreLeftAlone(t *testing.T) {
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	output := fs.StringP("output", "o", "table", "")
	quiet := fs.BoolP("quiet", "q", false, "")
	RegisterFlags(fs, RoleMaster)
	require.NoError(t, fs.Parse(NormalizeArgs([]string{"-o", "-json", "-q", "-rpc_port", "7"}, fs)))
	require.Equal(t, "-json", *output)
	require.True(t, *quiet)
	l, err := Load(Options{Role: RoleMaster, Flags: fs})
	require.NoError(t, err)
	require.Equal(t, 7, l.Config.Master.RPCPort)
}

// Every flag of upstream's programs is accepted with its default,
// and changes nothing then; only what has an effect is shown in help.
func TestEveryUpstreamFlagWithItsDefault(t *testing.T) {
	t.Parallel()
	for _, role := range []Role{RoleMaster, RoleStore} {
		before, err := Load(Options{Role: role, UpstreamDefaults: true})
		require.NoError(t, err)
		for _, n := range role.upstreamFlags() {
			fs, _, err := ParseArgs(role, []string{"-" + n.Name + "=" + n.Default})
			require.NoError(t, err, n.Name)
			if isFileFlag(n.Name) || n.Name == "mmap_arena_pool_size" { // a size that is given switches the arena on
				continue
			}
			f := fs.Lookup(n.Name)
			require.Equal(t, n.Key == "", f.Hidden, n.Name)
			require.NotEmpty(t, FlagGroup(f), n.Name)
			l, err := Load(Options{Role: role, UpstreamDefaults: true, Flags: fs})
			require.NoError(t, err, n.Name)
			require.Empty(t, l.Warnings, n.Name)
			require.Equal(t, before.Config, l.Config, n.Name)
		}
	}
}

// A flag that promises what cannot be given is an error, any other one without an effect
// a single warning that names it.
func TestEveryUnsupportedFlagSpeaksUp(t *testing.T) {
	other := map[string]string{"string": "x", "int32": "7", "int64": "7", "uint32": "7", "uint64": "7", "double": "0.25", "duration": "7s", "size": "7GB"}
	for _, role := range []Role{RoleMaster, RoleStore} {
		for _, n := range role.upstreamFlags() {
			if n.Key != "" || isFileFlag(n.Name) {
				continue
			}
			text := other[string(n.Type)]
			switch {
			case n.Type == "bool" && n.Default == "true":
				text = "false"
			case n.Type == "bool":
				text = "true"
			case n.Enum != "":
				text = words(n.Enum)[1]
			}
			l, err := load(t, role, []string{"--" + n.Name + "=" + text}, nil, "")
			if n.Refuse {
				require.True(t, IsUsage(err), n.Name)
				require.ErrorContains(t, err, "--"+n.Name, n.Name)
				require.ErrorContains(t, err, n.Feature, n.Name)
				continue
			}
			require.NoError(t, err, n.Name)
			require.Len(t, l.Warnings, 1, n.Name)
			require.Contains(t, l.Warnings[0].String(), "--"+n.Name+" ")
			require.Contains(t, l.Warnings[0].String(), n.Feature)
		}
	}
}

func TestRefusedFeatures(t *testing.T) {
	for _, flag := range []string{"enable_cxl",
		"dynamic_replication_mode=enforce", "memory_allocator=cachelib", "flagfile=x"} {
		_, err := load(t, RoleMaster, []string{"--" + flag}, nil, "")
		require.True(t, IsUsage(err), flag)
		require.ErrorContains(t, err, "not supported yet", flag)
	}
	for _, env := range []string{"MOONCAKE_ENABLE_DFS=1"} {
		_, err := load(t, RoleStore, nil, []string{env}, "")
		require.True(t, IsUsage(err), env)
		require.ErrorContains(t, err, "not supported yet", env)
	}
}

func TestSettingsWithoutAnEffectYet(t *testing.T) {
	l := mustLoad(t, RoleStore, []string{"--memcpy=on"}, nil, "store: {enable_http_server: true}\n")
	require.Len(t, l.Warnings, 1) // the HTTP server has one
	require.Contains(t, l.Warnings[0].String(), "flag --memcpy has no effect; not supported yet: the choice")
	require.Empty(t, mustLoad(t, RoleStore, []string{"--memcpy=auto"}, nil, "").Warnings, "the default promises nothing")
}

func FuzzNormalizeArgs(f *testing.F) {
	for _, s := range [][3]string{{"-rpc_port", "1", "x"}, {"--noenable_ha", "--", "-x"}, {"-o", "--=", "---"}, {"-v=1", "-no", "--no="}, {"--set", "a=b", "-é"}} {
		f.Add(s[0], s[1], s[2])
	}
	f.Fuzz(func(t *testing.T, a, b, c string) {
		args := []string{a, b, c}
		fs, _, err := ParseArgs(RoleMaster, args)
		if err != nil {
			return
		}
		again := NormalizeArgs(NormalizeArgs(args, fs), fs)
		if once := NormalizeArgs(args, fs); !equal(once, again) {
			t.Fatalf("%q -> %q -> %q", args, once, again)
		}
		if _, err := Load(Options{Role: RoleMaster, Flags: fs, File: ""}); err != nil && !IsUsage(err) {
			t.Fatal(err)
		}
	})
}

func equal(a, b []string) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

func TestFlagUsages(t *testing.T) {
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	fs.Bool("own", false, "one of the command's own")
	RegisterFlags(fs, RoleMaster)
	text := FlagUsages(fs)
	require.Contains(t, text, "--lease_ttl duration")
	require.Contains(t, text, "(default 10s)")
	require.Contains(t, text, "--default_kv_lease_ttl duration")
	require.NotContains(t, text, "enable_oplog")
	require.Less(t, strings.Index(text, "--own"), strings.Index(text, "--config"))
	require.Less(t, strings.Index(text, "--config"), strings.Index(text, "--default_kv_lease_ttl"))
}
