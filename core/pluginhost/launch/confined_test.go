package launch

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/pluginhost/internal/testplugin"
	"github.com/mooncake-go/mooncake/core/pluginhost/launch/sandbox"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// attacked runs the test plugin, which attacks, and returns the error of each attempt.
func attacked(t *testing.T, policy sandbox.Policy) (results map[string]string, p *Process) {
	t.Helper()
	dir := t.TempDir()
	target := testplugin.Target{Folder: dir, Secret: filepath.Join(dir, "shadow"), Left: filepath.Join(t.TempDir(), "left"), Host: os.Getpid()}
	require.NoError(t, os.WriteFile(target.Secret, []byte("secret"), 0o600))
	require.NoError(t, os.WriteFile(target.Left, nil, 0o600))
	policy.Read = append(policy.Read, filepath.Dir(target.Left))
	target.TCP, target.Abstract = listening(t, "tcp", "127.0.0.1:0"), listening(t, "unix", "@mooncake"+strings.ReplaceAll(dir, "/", "-"))
	target.Socket = listening(t, "unix", filepath.Join(dir, "s"))
	text, err := json.Marshal(target)
	require.NoError(t, err)
	o, log := options("attack")
	o.Sandbox = policy
	o.Env = append(o.Env, "ATTACK")
	before := o.lookupEnv
	o.lookupEnv = func(name string) (string, bool) {
		switch name {
		case "ATTACK":
			return string(text), true
		case "TMPDIR":
			return filepath.Dir(target.Left), true // where there is no sandbox
		}
		return before(name)
	}
	p = run(t, o)
	eventually(t, "the results", func() bool { return strings.Contains(log.String(), testplugin.Attacked) })
	_, line, found := strings.Cut(log.String(), testplugin.Attacked)
	require.True(t, found, log.String())
	line, _, _ = strings.Cut(line, "\n")
	line = strings.ReplaceAll(strings.TrimSuffix(line, `"`), `\"`, `"`)
	require.NoError(t, json.Unmarshal([]byte(line), &results), line)
	return results, p
}

// run starts a process and closes it at the end of the test.
func run(t *testing.T, o Options) *Process {
	t.Helper()
	p, err := Start(t.Context(), o)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, p.Close(context.Background())) })
	return p
}

func listening(t *testing.T, network, address string) string {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), network, address)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, l.Close()) })
	return l.Addr().String()
}

// whole skips a test on a machine that cannot enforce everything.
func whole(t *testing.T) {
	t.Helper()
	if missing := sandbox.Probe().Missing(); len(missing) > 0 {
		t.Skip("this kernel lacks: " + strings.Join(missing, ", "))
	}
}

// TestAHostilePlugin runs every attack without a sandbox and with those of the kinds, on the real kernel. What the
// machine itself forbids without a sandbox is not counted.
func TestAHostilePlugin(t *testing.T) {
	whole(t)
	open, _ := attacked(t, sandbox.Policy{})
	network := []string{"dial tcp", "dial udp", "dial a path", "ring"}
	for name, c := range map[string]struct {
		policy sandbox.Policy
		kept   []string // attempts that succeed
		shown  string
	}{
		"evict":     {sandbox.Policy{}, nil, "no new privileges, no capabilities, landlock"},
		"tier":      {sandbox.Policy{Network: true}, network, "no new privileges, no capabilities, landlock"},
		"transport": {sandbox.Policy{Network: true, Memory: true, Peers: true}, append(network, "dial abstract", "any capability"), "no capabilities but ipc_lock"},
	} {
		t.Run(name, func(t *testing.T) {
			c.policy.Mode = sandbox.ModeRequire
			got, p := attacked(t, c.policy)
			assert.Contains(t, p.Sandbox(), c.shown)
			assert.NotContains(t, p.Sandbox(), "not enforced")
			tried := 0
			for attempt, failed := range got {
				_, wanted := strings.CutPrefix(attempt, "ok: ")
				for _, k := range c.kept {
					wanted = wanted || k == attempt
				}
				switch {
				case wanted && open[attempt] == "":
					assert.Empty(t, failed, attempt)
				case !wanted:
					assert.NotEmpty(t, failed, attempt)
					if open[attempt] == "" {
						tried++
					}
				}
			}
			assert.Greater(t, tried, 10, "without a sandbox: %v", open)
		})
	}
}

// TestASandboxThatCannotBeEnforced: with require the plugin does not run, and with auto it runs and the report says so.
func TestASandboxThatCannotBeEnforced(t *testing.T) {
	o, _ := options("")
	o.system.noKeeper = errors.New("no keeper in this test")
	o.Sandbox.Mode = sandbox.ModeRequire
	_, err := Start(t.Context(), o)
	require.ErrorIs(t, err, errs.NotSupported.Err())
	require.ErrorContains(t, err, "no keeper in this test")
	require.ErrorContains(t, err, "plugins.sandbox")

	o.Sandbox.Mode = sandbox.ModeAuto
	o.Image = nil // It is used up.
	p := run(t, o)
	assert.Contains(t, p.Sandbox(), "not enforced")
}
