package plugins_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/cmd/mooncake/cli"
	"github.com/mooncake-go/mooncake/cmd/mooncake/cli/plugins"
	"github.com/mooncake-go/mooncake/cmd/mooncake/internal/clitest"
	"github.com/mooncake-go/mooncake/cmd/mooncake/internal/command"
	"github.com/mooncake-go/mooncake/core/api/introspect"
	"github.com/mooncake-go/mooncake/core/pluginhost"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

// machine is a machine of its own for admin sockets, in which this process plays all
// others.
type machine struct {
	env      []string
	patience time.Duration
}

func newMachine(t *testing.T) machine {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "mm")
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	return machine{patience: time.Minute, env: []string{"XDG_RUNTIME_DIR=" + dir, "TMPDIR=" + filepath.Join(dir, "none"), "XDG_DATA_HOME=" + dir}}
}

func (m machine) places() introspect.Places {
	return plugins.Places(m.env)
}

// host is a process with plugins.
type fakeHost struct {
	have   []pluginhost.Instance
	reload func(id plugin.ID) (pluginhost.Instance, error)
}

func (h fakeHost) Instances() []pluginhost.Instance { return h.have }

func (h fakeHost) Reload(_ context.Context, id plugin.ID) (pluginhost.Instance, error) {
	return h.reload(id)
}

func (m machine) run(t *testing.T, role string, h introspect.Host) (path string) {
	t.Helper()
	ln, err := introspect.Listen(t.Context(), m.places(), role)
	require.NoError(t, err)
	s := introspect.NewServer(h, role, "v1", nil)
	s.Start(ln)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		assert.NoError(t, s.Stop(ctx))
	})
	return ln.Path()
}

func (m machine) mooncake(args ...string) (code int, stdout, stderr string) {
	e, out, errOut := clitest.New()
	e.Environ, e.Patience = m.env, m.patience
	code = cli.Run(e, append([]string{"mooncake"}, args...))
	return code, out.String(), errOut.String()
}

func using(name string, state plugin.State, pid int) pluginhost.Instance {
	return pluginhost.Instance{Kind: "evict", Name: name, Home: "/p/mooncake-plugin-evict-" + name, State: state, PID: pid, Version: "1.2.3", Since: time.Now().Add(-time.Minute)}
}

func TestListShowsWhatIsInUse(t *testing.T) {
	m := newMachine(t)
	bad := using("mine", plugin.StateFailed, 0)
	bad.Reason, bad.Restarts, bad.Ended = "it ended 6 times", 5, "the process ended with exit code 9"
	bad.Log = []string{"no license\x1b[2Jfound", "good bye"}
	bad.Figures = map[string]string{"bytes_copied": "0", "a": "b"}
	m.run(t, "master", fakeHost{have: []pluginhost.Instance{
		{Kind: "evict", Name: "lru", Home: pluginhost.HomeBuiltin, State: plugin.StateOK}, using("mine", plugin.StateOK, 7),
	}})
	m.run(t, "store", fakeHost{have: []pluginhost.Instance{bad}})

	code, out, _ := m.mooncake("plugins", "list", "--kind", "evict")
	require.Zero(t, code)
	line := func(text string) string {
		for l := range strings.Lines(out) {
			if strings.Contains(l, text) {
				return l
			}
		}
		t.Fatalf("no line with %q in\n%s", text, out)
		return ""
	}
	me := os.Getpid()
	assert.Regexp(t, fmt.Sprintf(`^evict +lru .* ok +master %d +`, me), line("Least recently used"))
	assert.Regexp(t, fmt.Sprintf(`^evict +mine +1.2.3 +- +failed \(1 of 2\) +master %d, store %d +`, me, me), line("/p/mooncake-plugin-evict-mine"))
	assert.Regexp(t, fmt.Sprintf(`^evict/mine in store \(process %d\) is failed since .*, started again 5 times`, me), line("in store"))
	assert.Contains(t, out, "reason   it ended 6 times")
	assert.Contains(t, out, "before   the process ended with exit code 9")
	assert.Contains(t, out, "log      no license\uFFFD[2Jfound\n    log      good bye\n", "what a terminal would obey is taken out")
	assert.Contains(t, out, "figures  a=b bytes_copied=0\n")
	assert.NotContains(t, out, "in master (", "what is well needs no explanation")
	assert.NotContains(t, out, "transport")

	_, out, _ = m.mooncake("plugins", "list", "-o", "wide")
	assert.Contains(t, out, "evict/mine in master")
	assert.Contains(t, out, "as process 7")

	_, out, _ = m.mooncake("plugins", "list", "-o", "json")
	var list []plugins.ListedPlugin
	require.NoError(t, json.Unmarshal([]byte(out), &list))
	for _, p := range list {
		require.NotNil(t, p.Instances, p.Name)
		if p.Name == "mine" {
			require.Len(t, p.Instances, 2)
			assert.Equal(t, plugin.StateFailed, p.State)
			assert.Equal(t, "store", p.Instances[1].Process.Role)
			assert.Equal(t, bad.Log, p.Instances[1].Log, "scripts get it as it was")
		}
	}
	_, out, _ = m.mooncake("plugins", "list", "-o", "yaml", "--kind", "evict")
	assert.Contains(t, out, "role: store")

	_, out, _ = m.mooncake("plugins", "list", "--no-live", "-o", "json")
	assert.NotContains(t, out, "instances")
	assert.NotContains(t, out, "mine")
	code, _, _ = m.mooncake("plugins", "list", "-o", "xml")
	assert.Equal(t, command.ExitUsage, code)
}

// For root, the process may belong to any user.
func TestNothingThatAProcessSaysReachesTheTerminalAsItIs(t *testing.T) {
	m := newMachine(t)
	const evil = "\x1b[2J\u009b"
	bad := pluginhost.Instance{
		Kind: "evict" + evil, Name: "a" + evil, Home: "/p" + evil, State: "failed" + evil, Version: evil, Reason: evil, Ended: evil,
		Log: []string{evil}, Figures: map[string]string{evil: evil}, SHA256: evil, PID: 3,
	}
	mine := using("mine", plugin.StateOK, 7)
	m.run(t, "store", fakeHost{have: []pluginhost.Instance{bad, mine}, reload: func(plugin.ID) (pluginhost.Instance, error) { return bad, nil }})
	for _, args := range [][]string{{"list", "-o", "wide"}, {"reload", "evict/mine"}} {
		_, out, errOut := m.mooncake(append([]string{"plugins"}, args...)...)
		assert.Contains(t, out, "\uFFFD[2J", "%v shows it", args)
		assert.NotContains(t, out+errOut, "\x1b", "%v", args)
		assert.NotContains(t, out+errOut, "\u009b", "%v", args)
	}
}

// A process that does not answer is a line.
func TestAHungProcessIsALine(t *testing.T) {
	m := newMachine(t)
	m.patience = 100 * time.Millisecond // Another process may exceed it too.
	path := m.run(t, "master", fakeHost{have: []pluginhost.Instance{using("mine", plugin.StateOK, 7)}})
	hung, err := net.Listen("unix", filepath.Join(filepath.Dir(path), "store-4242.sock"))
	require.NoError(t, err)
	defer hung.Close()
	code, out, _ := m.mooncake("plugins", "list")
	assert.Zero(t, code)
	assert.Contains(t, out, "\nstore (process 4242) did not say what it runs: ")

	code, out, errOut := m.mooncake("plugins", "list", "-o", "json")
	assert.Zero(t, code)
	require.True(t, json.Valid([]byte(out)), "standard output is for scripts")
	assert.Contains(t, errOut, "store (process 4242)")

	// Another process may use the plugin as well: that is not known, and said.
	code, _, errOut = m.mooncake("plugins", "reload", "evict/other")
	assert.Equal(t, command.ExitFailure, code)
	assert.Contains(t, errOut, "store-4242.sock")
}

// TestAProcessThatEndsWhileItIsAskedIsNone: it uses no plugins any more, so nothing is unknown.
func TestAProcessThatEndsWhileItIsAskedIsNone(t *testing.T) {
	m := newMachine(t)
	path := m.run(t, "master", fakeHost{have: []pluginhost.Instance{using("mine", plugin.StateOK, 7)}})
	ending := func() {
		l, err := net.Listen("unix", filepath.Join(filepath.Dir(path), "store-4242.sock"))
		require.NoError(t, err)
		t.Cleanup(func() { l.Close() })
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				if n, _ := c.Read(make([]byte, 1)); n > 0 { // else a connection that only finds out whether the process runs
					l.Close()
				}
				c.Close()
			}
		}()
	}
	ending()
	code, _, errOut := m.mooncake("plugins", "reload", "evict/none")
	assert.Equal(t, command.ExitNotFound, code, errOut)
	ending()
	code, out, _ := m.mooncake("plugins", "list")
	assert.Zero(t, code)
	assert.NotContains(t, out, "4242")
}

func TestReload(t *testing.T) {
	m := newMachine(t)
	old := using("mine", plugin.StateOK, 7)
	old.SHA256 = "0123456789abcdef"
	var asked []string
	host := func(role string, err error) fakeHost {
		return fakeHost{have: []pluginhost.Instance{old, {Kind: "alloc", Name: "arena", Home: pluginhost.HomeBuiltin}}, reload: func(id plugin.ID) (pluginhost.Instance, error) {
			asked = append(asked, role+" "+id.String())
			now := old
			now.PID, now.SHA256, now.Version = 8, "fedcba9876543210", "1.3.0"
			return now, err
		}}
	}
	master := m.run(t, "master", host("master", nil))
	m.run(t, "store", host("store", nil))
	code, out, errOut := m.mooncake("plugins", "reload", "evict/mine")
	require.Zero(t, code, errOut)
	assert.Equal(t, []string{"master evict/mine", "store evict/mine"}, asked)
	assert.Equal(t, fmt.Sprintf("evict/mine in master (process %d): ok, process 7 -> 8, version 1.2.3 -> 1.3.0, sha256 0123456789ab -> fedcba987654\n", os.Getpid()),
		strings.SplitAfter(out, "\n")[0])

	asked = nil
	code, out, _ = m.mooncake("plugins", "reload", "evict/mine", "--socket", master, "-o", "json")
	require.Zero(t, code)
	assert.Equal(t, []string{"master evict/mine"}, asked)
	var results []plugins.ReloadResult
	require.NoError(t, json.Unmarshal([]byte(out), &results))
	require.Len(t, results, 1)
	assert.Equal(t, 7, results[0].Before.PID)
	assert.Equal(t, 8, results[0].After.PID)
	code, _, _ = m.mooncake("plugins", "reload", "evict/mine", "--pid", fmt.Sprint(os.Getpid()))
	assert.Zero(t, code)

	m.run(t, "client", host("client", errors.New("the new process ended: no license")))
	code, out, errOut = m.mooncake("plugins", "reload", "evict/mine")
	assert.Equal(t, command.ExitFailure, code)
	assert.Contains(t, errOut, "in client")
	assert.Contains(t, errOut, "no license")
	assert.Contains(t, out, "in store", "one failure does not keep others back")

	for args, want := range map[string]struct {
		code int
		text string
	}{
		"evict/none":                        {command.ExitNotFound, "not in use"},
		"alloc/arena":                       {command.ExitFailure, "linked into"},
		"evict/mine --pid 1":                {command.ExitFailure, "process 1 has no admin socket"},
		"evict/mine --socket /none":         {command.ExitFailure, "/none"},
		"evict/mine --pid 1 --socket /none": {command.ExitUsage, ""},
		"evict/mine --pid -1":               {command.ExitUsage, ""},
		"evict/mine --timeout 0s":           {command.ExitUsage, ""},
		"evict/mine -o xml":                 {command.ExitUsage, ""},
		"mine":                              {command.ExitUsage, "evict/lru"},
		"evict/mine alloc/arena":            {command.ExitUsage, "2 arguments"},
	} {
		code, _, errOut := m.mooncake(append([]string{"plugins", "reload"}, strings.Fields(args)...)...)
		assert.Equal(t, want.code, code, "%s: %s", args, errOut)
		assert.Contains(t, errOut, want.text, args)
	}
}

// TestListShowsWhatRunsAndWhatIsInstalled: when a file was replaced and its processes were not.
func TestListShowsWhatRunsAndWhatIsInstalled(t *testing.T) {
	w := newWorkbench(t)
	program := w.build("evict-lru", "github.com/mooncake-go/mooncake/plugins/evict-lru/cmd/mooncake-plugin-evict-lru")
	text, err := os.ReadFile(program)
	require.NoError(t, err)
	sum := fmt.Sprintf("%x", sha256.Sum256(text))
	m := newMachine(t)
	old := pluginhost.Instance{Kind: "evict", Name: "lru", Home: program, State: plugin.StateOK, PID: 7, Version: "0.0.9", SHA256: strings.Repeat("ab", 32)}
	m.run(t, "master", fakeHost{have: []pluginhost.Instance{old}})
	now := old
	now.SHA256 = sum
	m.run(t, "store", fakeHost{have: []pluginhost.Instance{now}})
	code, out, errOut := m.mooncake("plugins", "list", "--plugin-dir", filepath.Dir(program))
	require.Zero(t, code, errOut)
	assert.Contains(t, out, fmt.Sprintf(") runs version 0.0.9 (sha256 abababababab), and %s has version 0.1.0 (sha256 %.12s) now; `mooncake plugins reload evict/lru` starts that\n", program, sum))
	assert.Equal(t, 1, strings.Count(out, " now; "), "the other process runs the file")
}
