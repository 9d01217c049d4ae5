package pluginhost

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/internal/testkit/logbuf"
	"github.com/mooncake-go/mooncake/core/pluginhost/launch"
	"github.com/mooncake-go/mooncake/core/pluginhost/launch/sandbox"
	"github.com/mooncake-go/mooncake/core/pluginhost/trust"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/security"
)

// rules returns a catalog of the same folder under other rules.
func (g guarded) rules(t *testing.T, r trust.Rules, mode sandbox.Mode) guarded {
	t.Helper()
	g.log = &logbuf.Buffer{}
	var err error
	g.Catalog, err = New(nil, Options{Dirs: []string{filepath.Dir(g.path)}, Rules: r, Sandbox: mode, Logger: slog.New(slog.NewTextHandler(g.log, nil))})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, g.Close(context.Background())) })
	return g
}

// TestASecurityModeLocks: a program that is not locked does not run, unless the operator says so.
func TestASecurityModeLocks(t *testing.T) {
	g := guard(t, trust.ModeOff).rules(t, trust.Rules{Secured: true}, "")
	_, err := g.OpenEvict(t.Context(), faultyEvict, Spec{}, EvictOptions{})
	require.ErrorIs(t, err, errs.FileOpenFail.Err())
	require.ErrorContains(t, err, "mooncake plugins lock evict/faulty")

	off := g.rules(t, trust.Rules{Secured: true, Mode: trust.ModeOff}, "")
	p := off.open(t)
	require.NoError(t, p.Start(t.Context(), nil))
	assert.Equal(t, 1, off.log.Count("plugins.trust is off although security.mode is not"))

	g.lockIt(t)
	locked := g.rules(t, trust.Rules{Secured: true, Lock: g.lock}, "")
	require.NoError(t, locked.open(t).Start(t.Context(), nil))
}

// TestASignedSetOfPlugins: a signature is verified at each start, with the bytes of the lock file that count. A lock file
// that was changed after signing refuses the reload, and the process in use goes on.
func TestASignedSetOfPlugins(t *testing.T) {
	key, err := trust.NewKey()
	require.NoError(t, err)
	g := guard(t, trust.ModeOff)
	rules := trust.Rules{Lock: g.lock, Keys: []string{key.Public()}, Record: filepath.Join(filepath.Dir(g.lock), "state", "set.json")}
	g = g.rules(t, rules, "")
	sign := func() {
		g.lockIt(t)
		_, err := trust.SignLock(t.Context(), g.lock, key, "")
		require.NoError(t, err)
	}
	g.lockIt(t)
	_, err = g.OpenEvict(t.Context(), faultyEvict, Spec{}, EvictOptions{})
	require.ErrorContains(t, err, "there is no "+g.lock+".minisig")
	sign()
	assert.Equal(t, key.ID(), g.List()[0].SignedBy)
	p := g.open(t)
	require.NoError(t, p.Start(t.Context(), nil))
	before := g.Instances()[0]

	g.change(t)
	g.lockIt(t)
	_, err = g.Reload(t.Context(), faultyEvict)
	require.ErrorIs(t, err, errs.FileOpenFail.Err())
	require.ErrorContains(t, err, "was changed after signing")
	assert.Equal(t, before.PID, g.Instances()[0].PID)
	_, err = p.Stats(t.Context())
	require.NoError(t, err)

	sign()
	after, err := g.Reload(t.Context(), faultyEvict)
	require.NoError(t, err)
	assert.NotEqual(t, before.SHA256, after.SHA256)
	assert.Equal(t, after.SHA256, executed(t, after.PID))

	// The host has run the set: once it has run one that was signed later, an older one does not run, though its signature is good.
	require.FileExists(t, rules.Record)
	require.NoError(t, os.WriteFile(rules.Record, []byte(`{"signed": 32503680000}`), 0o600))
	_, err = g.Reload(t.Context(), faultyEvict)
	require.ErrorIs(t, err, errs.FileOpenFail.Err())
	require.ErrorContains(t, err, "an older set was put in its place")
}

func TestTheSandboxIsReported(t *testing.T) {
	if missing := sandbox.Probe().Missing(); len(missing) > 0 {
		t.Skip(strings.Join(missing, ", "))
	}
	g := guard(t, trust.ModeOff)
	g = g.rules(t, trust.Rules{}, sandbox.ModeRequire)
	require.NoError(t, g.open(t).Start(t.Context(), nil))
	assert.Contains(t, g.Instances()[0].Figures["sandbox"], "seccomp")
	assert.Equal(t, 1, g.log.Count("runs in a sandbox"))
}

// TestWhatASandboxLeaves: by kind, by the settings, and by the security of the host.
func TestWhatASandboxLeaves(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "certs", "c.pem")
	require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755)) //nolint:gosec // a folder of the test
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	spec := Spec{
		Config: map[string]any{"path": dir, "deep": []any{map[string]any{"cert": file}}, "root": "/", "word": "a/b", "none": "/none/at/all"},
		Read:   []string{"/r"}, Write: []string{"/w"},
	}
	policy := func(kind string, mode sandbox.Mode) sandbox.Policy {
		return starter[plugin.Component]{
			c: &Catalog{opts: Options{Sandbox: mode}}, entry: Entry{Kind: kind, Name: "x", Home: "/plugins/p"}, spec: spec,
			security: func() security.Settings {
				return security.Settings{Files: security.Files{CA: "/pki/ca.pem", Key: "/keys/k.pem"}}
			},
		}.policy(strings.NewReader("\x7fELF"))
	}
	evict := policy(plugin.KindEvict, sandbox.ModeAuto)
	assert.False(t, evict.Memory || evict.Network || evict.Peers)
	assert.ElementsMatch(t, []string{"/plugins", "/r", dir, filepath.Dir(file)}, evict.Read)
	assert.Equal(t, []string{"/w"}, evict.Write)

	tier := policy(plugin.KindTier, sandbox.ModeAuto)
	assert.True(t, tier.Memory && tier.Network && !tier.Peers)
	assert.ElementsMatch(t, []string{"/w", dir, file}, tier.Write)

	transport := policy(plugin.KindTransport, sandbox.ModeRequire)
	assert.True(t, transport.Memory && transport.Network && transport.Peers)
	assert.ElementsMatch(t, []string{"/plugins", "/r", "/pki", "/keys", dir, filepath.Dir(file)}, transport.Read)
	assert.Contains(t, transport.Write, "/dev/infiniband")
	assert.Equal(t, sandbox.ModeOff, policy(plugin.KindTier, sandbox.ModeOff).Mode)
}

func TestFoldersOfAnInterpreter(t *testing.T) {
	dir := t.TempDir()
	home := filepath.Join(dir, "home")
	for _, d := range []string{"venv/bin", "home/bin", "opt/python/bin"} {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, d), 0o755)) //nolint:gosec // a folder of the test
	}
	real := filepath.Join(dir, "opt/python/bin/python3")
	require.NoError(t, os.WriteFile(real, nil, 0o755)) //nolint:gosec // a program
	for _, d := range []string{"venv", "home"} {
		require.NoError(t, os.Symlink(real, filepath.Join(dir, d, "bin", "python3")))
	}
	t.Setenv("HOME", home)
	t.Setenv("PATH", filepath.Join(dir, "venv/bin"))
	python := filepath.Join(dir, "opt/python")
	for line, want := range map[string][]string{
		"#!" + dir + "/venv/bin/python3 -I\nprint()": {filepath.Join(dir, "venv"), python},
		"#!/usr/bin/env python3\n":                   {filepath.Join(dir, "venv"), python},
		"#!" + home + "/bin/python3\n":               {filepath.Join(home, "bin"), python},
		"#!/bin/none\n":                              {"/bin"},
		"#!/usr/bin/env none\n":                      nil,
		"#!\n":                                       nil,
		"\x7fELF #!/bin/sh\n":                        nil,
	} {
		assert.Equal(t, want, interpreterFolders(strings.NewReader(line)), line)
	}
}

// TestByHandNeedsNoTrust: a program that is started by hand is refused where a checked one is demanded.
func TestByHandNeedsNoTrust(t *testing.T) {
	g := guard(t, trust.ModeOff)
	g.lockIt(t)
	for name, r := range map[string]trust.Rules{
		"secured": {Secured: true, Mode: trust.ModeOff}, "locked": {Lock: g.lock},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := g.rules(t, r, "").OpenEvict(t.Context(), faultyEvict, Spec{ByHand: func(launch.ByHand) { t.Error("it waits for the program") }}, EvictOptions{})
			require.NoError(t, err)
			err = p.Start(t.Context(), nil)
			require.ErrorIs(t, err, errs.NotSupported.Err())
			assert.ErrorContains(t, err, "plugins.trust off")
			require.NoError(t, p.Stop(t.Context()))
		})
	}
}
