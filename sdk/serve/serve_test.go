package serve

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	goplugin "github.com/hashicorp/go-plugin"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mooncake-go/mooncake/sdk/evict"
	"github.com/mooncake-go/mooncake/sdk/evict/evictwire"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/wire"
	"github.com/mooncake-go/mooncake/sdk/x/shm"
)

// asPlugin makes the test binary itself the plugin program.
const asPlugin = "MOONCAKE_SERVE_TEST"

func TestMain(m *testing.M) {
	if os.Getenv(asPlugin) != "" {
		Main(factory("evict", "talker", 1))
	}
	goleak.VerifyTestMain(m)
}

// talker prints, logs, and has a child process of its own.
type talker struct{ evict.Policy }

func (talker) Start(_ context.Context, h plugin.Host) error {
	fmt.Println("printed to stdout")
	fmt.Fprintln(os.Stderr, "printed to stderr")
	h.Logger().Warn("logged", "size", 3)
	child := exec.Command("sleep", "1000")
	child.Stdout, child.Stderr = os.Stdout, os.Stderr
	if err := child.Start(); err != nil {
		return err
	}
	fmt.Fprintln(os.Stderr, "grandchild", child.Process.Pid)
	return nil
}
func (talker) Stop(context.Context) error                 { return nil }
func (talker) Stats(context.Context) (evict.Stats, error) { return evict.Stats{Objects: 42}, nil }

func factory(kind, name string, apis ...uint) plugin.Factory {
	m := plugin.Manifest{
		Format: 1, ID: plugin.ID{Kind: kind, Name: name}, Version: "1.2.3", API: apis,
		Summary: "Talks a lot", Stability: plugin.Experimental,
	}
	return evict.Define(m, func() *plugin.NoConfig { return &plugin.NoConfig{} },
		func(*plugin.NoConfig) (evict.Policy, error) { return talker{}, nil })
}

// outcome runs the program with captured output.
func outcome(t *testing.T, env map[string]string, factories []plugin.Factory, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	dir := t.TempDir()
	out, err := os.Create(filepath.Join(dir, "out"))
	require.NoError(t, err)
	defer out.Close()
	errs, err := os.Create(filepath.Join(dir, "err"))
	require.NoError(t, err)
	defer errs.Close()
	p := program{args: args, getenv: func(k string) string { return env[k] }, stdout: out, stderr: errs}
	code = p.run(factories)
	o, err := os.ReadFile(out.Name())
	require.NoError(t, err)
	e, err := os.ReadFile(errs.Name())
	require.NoError(t, err)
	return code, string(o), string(e)
}

func TestRunByHand(t *testing.T) {
	one := []plugin.Factory{factory("evict", "talker", 1)}
	cookie := map[string]string{wire.Handshake().MagicCookieKey: wire.Handshake().MagicCookieValue}
	for name, c := range map[string]struct {
		env            map[string]string
		factories      []plugin.Factory
		args           []string
		code           int
		stdout, stderr string
	}{
		"no cookie":     {nil, one, nil, ExitUsage, "", "does nothing when it is run by hand"},
		"wrong cookie":  {map[string]string{wire.Handshake().MagicCookieKey: "x"}, one, nil, ExitUsage, "", "evict/talker 1.2.3: Talks a lot"},
		"version":       {nil, one, []string{"--version"}, ExitOK, "evict/talker 1.2.3 (contract [1])\n", ""},
		"help":          {nil, one, []string{"--help"}, ExitOK, "prog --manifest", ""},
		"unknown flag":  {cookie, one, []string{"--serve"}, ExitUsage, "", `unknown arguments ["--serve"]; try --help`},
		"two flags":     {nil, one, []string{"--help", "x"}, ExitUsage, "", "unknown arguments"},
		"no factory":    {cookie, nil, nil, ExitUsage, "", "built without a plugin"},
		"future api":    {cookie, []plugin.Factory{factory("evict", "talker", 9)}, nil, ExitUsage, "", "names contract versions [9], but the program was built with an sdk that speaks [1]"},
		"bad lifeline":  {map[string]string{wire.Handshake().MagicCookieKey: wire.Handshake().MagicCookieValue, wire.LifelineEnv: "x"}, one, nil, ExitFailure, "", "not the number of an open file descriptor"},
		"bad data":      {map[string]string{wire.Handshake().MagicCookieKey: wire.Handshake().MagicCookieValue, wire.DataEnv: "x"}, one, nil, ExitFailure, "", "nor the path of a socket that gives one"},
		"no data":       {map[string]string{wire.Handshake().MagicCookieKey: wire.Handshake().MagicCookieValue, wire.DataEnv: "/nowhere/data"}, one, nil, ExitFailure, "", "no such file"},
		"lifeline shut": {map[string]string{wire.Handshake().MagicCookieKey: wire.Handshake().MagicCookieValue, wire.LifelineEnv: "999"}, one, nil, ExitFailure, "", "bad file descriptor"},
	} {
		t.Run(name, func(t *testing.T) {
			code, stdout, stderr := outcome(t, c.env, c.factories, append([]string{"/x/prog"}, c.args...)...)
			assert.Equal(t, c.code, code)
			assert.Contains(t, stdout, c.stdout)
			assert.Contains(t, stderr, c.stderr)
			assert.Equal(t, c.stdout == "", stdout == "", "stdout: %q", stdout)
		})
	}
}

func TestManifestFlagPrintsWhatAHostCanScan(t *testing.T) {
	code, stdout, _ := outcome(t, nil, []plugin.Factory{factory("evict", "talker", 1)}, "prog", "--manifest")
	require.Equal(t, ExitOK, code)
	var m plugin.Manifest
	require.NoError(t, json.Unmarshal([]byte(stdout), &m))
	assert.Equal(t, "evict/talker", m.String())
	assert.NoError(t, m.Validate())
}

func TestTheFileNameChooses(t *testing.T) {
	fs := []plugin.Factory{factory("evict", "one", 1), factory("evict", "two", 1)}
	assert.Equal(t, "two", choose("/x/mooncake-plugin-evict-two", fs).Manifest().Name)
	assert.Equal(t, "one", choose("/x/mooncake-plugin-evict-three", fs).Manifest().Name)
	assert.Equal(t, "one", choose("main", fs).Manifest().Name)
}

// child starts the test binary as a plugin. lines carries what it wrote to stderr.
func child(t *testing.T, lifeline *os.File) (*goplugin.Client, *exec.Cmd, <-chan string) {
	t.Helper()
	r, w, err := os.Pipe()
	require.NoError(t, err)
	lines := make(chan string, 64)
	go func() {
		defer close(lines)
		for s := bufio.NewScanner(r); s.Scan(); {
			lines <- s.Text()
		}
	}()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), asPlugin+"=1", wire.LifelineEnv+"=3")
	cmd.ExtraFiles = []*os.File{lifeline}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c := goplugin.NewClient(&goplugin.ClientConfig{
		HandshakeConfig: wire.Handshake(), Cmd: cmd, AutoMTLS: true, SkipHostEnv: true, Stderr: w,
		VersionedPlugins: wire.ClientPlugins(evictwire.Kind().Descriptor(), []uint{1, 7}, wire.ClientOptions{ID: plugin.ID{Kind: "evict", Name: "talker"}}),
		AllowedProtocols: []goplugin.Protocol{goplugin.ProtocolGRPC}, Logger: hclog.NewNullLogger(), GRPCDialOptions: wire.GRPCDialOptions(),
	})
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		c.Kill()
		_ = w.Close()
		for range lines {
		}
		_ = r.Close()
	})
	return c, cmd, lines
}

func TestServesAHostAndDiesWithIt(t *testing.T) {
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	ours, theirs := os.NewFile(uintptr(fds[0]), "ours"), os.NewFile(uintptr(fds[1]), "theirs")
	defer ours.Close()
	client, cmd, lines := child(t, theirs)
	proto, err := client.Client()
	require.NoError(t, err)
	_ = theirs.Close()
	assert.Equal(t, 1, client.NegotiatedVersion(), "of 1 and 7 the plugin speaks 1")
	raw, err := proto.Dispense(wire.PluginName)
	require.NoError(t, err)
	policy := raw.(*evictwire.Client)
	ctx := t.Context()
	require.NoError(t, policy.Configure(ctx, 1, nil))
	require.NoError(t, policy.Start(ctx, nil))
	st, err := policy.Stats(ctx)
	require.NoError(t, err)
	assert.EqualValues(t, 42, st.Objects)

	grandchild := 0
	var seen strings.Builder
	for grandchild == 0 {
		line, more := <-lines
		require.True(t, more, "the plugin ended: %s", seen.String())
		seen.WriteString(line + "\n")
		if pid, ok := strings.CutPrefix(line, "grandchild "); ok {
			grandchild, err = strconv.Atoi(pid)
			require.NoError(t, err)
		}
	}
	assert.Contains(t, seen.String(), "printed to stdout")
	assert.Contains(t, seen.String(), "printed to stderr")
	assert.Contains(t, seen.String(), `"msg":"logged","size":3`)
	require.NoError(t, syscall.Kill(grandchild, 0))

	_ = ours.Close() // The host dies.
	gone := func(pid int) func() bool {
		return func() bool { return dead(pid) }
	}
	assert.Eventually(t, gone(cmd.Process.Pid), 20*time.Second, 5*time.Millisecond, "the plugin stays")
	assert.Eventually(t, gone(grandchild), 20*time.Second, 5*time.Millisecond, "what the plugin started stays")
}

// dead reports whether a process is gone or only waits to be collected.
func dead(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
		return true
	}
	_, after, _ := strings.Cut(string(stat), ") ")
	return strings.HasPrefix(after, "Z")
}

func TestShutdownByTheHost(t *testing.T) {
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	ours, theirs := os.NewFile(uintptr(fds[0]), "ours"), os.NewFile(uintptr(fds[1]), "theirs")
	defer ours.Close()
	client, cmd, _ := child(t, theirs)
	proto, err := client.Client()
	require.NoError(t, err)
	_ = theirs.Close()
	require.NoError(t, proto.Close())
	assert.Eventually(t, client.Exited, 20*time.Second, 5*time.Millisecond)
	assert.Equal(t, ExitOK, cmd.ProcessState.ExitCode())
}

func TestRemoveSockets(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "d")
	require.NoError(t, os.Mkdir(dir, 0o700))
	keep := filepath.Join(dir, "keep")
	require.NoError(t, os.WriteFile(keep, nil, 0o600))
	removeSockets("")
	removeSockets(dir)
	assert.FileExists(t, keep, "only sockets are ours")
	require.NoError(t, os.Remove(keep))
	removeSockets(dir)
	assert.NoDirExists(t, dir)
	removeSockets(dir)
}

// TestDataOfAHostThatDidNotStartIt: the descriptor comes through a socket; a host that sends none is an error.
func TestDataOfAHostThatDidNotStartIt(t *testing.T) {
	for name, gives := range map[string]bool{"gives one": true, "gives none": false} {
		t.Run(name, func(t *testing.T) {
			l, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: filepath.Join(t.TempDir(), "d")})
			require.NoError(t, err)
			defer l.Close()
			ours, theirs, err := shm.Pair("test")
			require.NoError(t, err)
			defer ours.Close()
			defer theirs.Close()
			host := make(chan error, 1)
			go func() {
				conn, err := l.AcceptUnix()
				if err == nil {
					var rights []byte
					if gives {
						rights = syscall.UnixRights(int(theirs.Fd()))
					}
					_, _, err = conn.WriteMsgUnix([]byte{0}, rights, nil)
					err = errors.Join(err, conn.Close())
				}
				host <- err
			}()
			data, err := openData(l.Addr().String())
			require.NoError(t, <-host)
			if !gives {
				require.ErrorContains(t, err, "the host sent no descriptor")
				return
			}
			require.NoError(t, err)
			defer data.Close()
			require.NoError(t, data.Send(t.Context(), []byte("hello")))
			buf := make([]byte, 8)
			n, _, err := ours.Receive(t.Context(), buf)
			require.NoError(t, err)
			assert.Equal(t, "hello", string(buf[:n]))
		})
	}
}
