package launch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mooncake-go/mooncake/core/pluginhost/internal/testplugin"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/evict"
	"github.com/mooncake-go/mooncake/sdk/evict/evictwire"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

var faulty string

func TestMain(m *testing.M) {
	if mode := os.Getenv(asImpostor); mode != "" {
		impostor(mode == "shown")
	}
	dir, err := os.MkdirTemp("", "launch")
	if err == nil {
		err = testplugin.Build(context.Background(), dir, "evict")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	faulty = filepath.Join(dir, "mooncake-plugin-evict-faulty")
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		_ = os.RemoveAll(dir)
		os.Exit(code)
	}))
}

// record is a log for concurrent writers.
type record struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (r *record) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.buf.Write(p)
}

func (r *record) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.buf.String()
}

func options(env string) (Options, *record) {
	log := &record{}
	return Options{
		Path: faulty, ID: plugin.ID{Kind: "evict", Name: "faulty"}, API: []uint{1}, Env: []string{"FAULTY"},
		Logger: slog.New(slog.NewTextHandler(log, nil)),
		lookupEnv: func(name string) (string, bool) {
			if name == "FAULTY" {
				return env, env != ""
			}
			return os.LookupEnv(name)
		},
	}, log
}

func start(t *testing.T, config string) (*Process, *evictwire.Client, *record) {
	t.Helper()
	o, log := options("")
	p, err := Start(t.Context(), o)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, p.Close(context.Background())) })
	require.NoError(t, p.Client().Configure(t.Context(), p.API(), []byte(config)))
	require.NoError(t, p.Client().Start(t.Context(), nil))
	return p, p.Client().(*evictwire.Client), log
}

func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	require.Eventually(t, f, 30*time.Second, 2*time.Millisecond, what)
}

// gone reports whether a process does not run any more.
func gone(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
		return true
	}
	_, after, _ := strings.Cut(string(stat), ") ")
	return strings.HasPrefix(after, "Z")
}

func TestStartUseClose(t *testing.T) {
	p, policy, log := start(t, "")
	assert.Equal(t, "0.3.0", p.Manifest().Version)
	assert.EqualValues(t, 1, p.API())
	require.NoError(t, policy.Record(t.Context(), []evict.Event{{Op: evict.Insert, ID: 1, Size: 5}}))
	st, err := policy.Stats(t.Context())
	require.NoError(t, err)
	assert.EqualValues(t, 1, st.Objects)
	eventually(t, "the plugin's log", func() bool { return strings.Contains(log.String(), "level=INFO msg=ready") })

	pid := p.PID()
	require.NoError(t, policy.Stop(t.Context()))
	require.NoError(t, p.Close(t.Context()))
	require.NoError(t, p.Close(t.Context()), "repeatable")
	<-p.Done()
	assert.True(t, gone(pid))
	assert.Contains(t, p.Ending(), "exited with status 0")
	assert.Error(t, policy.Record(t.Context(), []evict.Event{{Op: evict.Insert, ID: 2}}))
}

var spawned = regexp.MustCompile(`msg=spawned child=(\d+)`)

func TestGrandchildrenDieWithTheChild(t *testing.T) {
	for name, end := range map[string]func(*Process){
		"SIGKILL from outside": func(p *Process) { _ = syscall.Kill(p.PID(), syscall.SIGKILL) },
		"SIGTERM from outside": func(p *Process) { _ = syscall.Kill(p.PID(), syscall.SIGTERM) },
		"closed":               func(p *Process) { _ = p.Close(context.Background()) },
		"killed":               func(p *Process) { p.Kill() },
	} {
		t.Run(name, func(t *testing.T) {
			p, _, log := start(t, `{"spawn": true}`)
			eventually(t, "spawned", func() bool { return spawned.MatchString(log.String()) })
			child, err := strconv.Atoi(spawned.FindStringSubmatch(log.String())[1])
			require.NoError(t, err)
			require.False(t, gone(child))
			end(p)
			<-p.Done()
			eventually(t, "the grandchild is gone", func() bool { return gone(child) })
		})
	}
}

func TestCrashFailsTheCallAndLeavesWords(t *testing.T) {
	p, policy, _ := start(t, "")
	err := policy.Record(t.Context(), []evict.Event{{Op: evict.Insert, ID: 0xdead}})
	assert.ErrorIs(t, err, errs.RPCFail.Err())
	assert.Equal(t, errs.ClassTransientPeer, errs.ClassOf(err))
	<-p.Done()
	assert.Contains(t, p.Ending(), "exited with status 2")
	assert.Contains(t, p.Ending(), "panic: told to crash")
}

func TestStartFailures(t *testing.T) {
	for name, c := range map[string]struct {
		env    string
		change func(*Options)
		code   errs.Code
		want   []string
	}{
		"exits at once":   {"exit", nil, errs.RPCFail, []string{"evict/faulty", "exited with status 7 before it was ready", "no device of this kind"}},
		"never shakes":    {"silent", func(o *Options) { o.StartTimeout = 300 * time.Millisecond }, errs.RPCTimeout, []string{"no handshake within 300ms"}},
		"babbles":         {"babble", nil, errs.RPCFail, []string{"hello, I am no plugin", `{"@message": 5`}},
		"other version":   {"", func(o *Options) { o.API = []uint{8, 9} }, errs.InvalidVersion, []string{"this host speaks [8 9]", "Plugin version: 1"}},
		"other plugin":    {"", func(o *Options) { o.ID.Name = "calm" }, errs.InvalidParams, []string{"evict/calm", "says that it is evict/faulty"}},
		"no such program": {"", func(o *Options) { o.Path = "/nonexistent/x" }, errs.FileOpenFail, []string{"no such file"}},
		"no program":      {"", func(o *Options) { o.Path = "/etc/passwd" }, errs.FileOpenFail, []string{"permission denied"}},
	} {
		t.Run(name, func(t *testing.T) {
			o, _ := options(c.env)
			if c.change != nil {
				c.change(&o)
			}
			p, err := Start(t.Context(), o)
			require.Error(t, err)
			assert.Nil(t, p)
			assert.Equal(t, c.code, errs.CodeOf(err), err.Error())
			for _, w := range c.want {
				assert.ErrorContains(t, err, w)
			}
		})
	}
}

func TestStartEndsWithItsContext(t *testing.T) {
	o, _ := options("silent")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := Start(ctx, o)
	assert.ErrorIs(t, err, context.Canceled)
}

// TestCloseOfAHungChild: a stopped process does not answer, and Close ends it all the same.
func TestCloseOfAHungChild(t *testing.T) {
	p, _, _ := start(t, "")
	require.NoError(t, syscall.Kill(p.PID(), syscall.SIGSTOP))
	eventually(t, "every thread stands", func() bool { return stopped(t, p.PID()) })
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	require.NoError(t, p.Close(ctx))
	<-p.Done()
	assert.Contains(t, p.Ending(), "was killed by the host")
}

// TestCloseOfAChildThatLeftItsGroup: a signal for the group does not reach the child, and Close
// ends it all the same.
func TestCloseOfAChildThatLeftItsGroup(t *testing.T) {
	o, _ := options("leave group")
	p, err := Start(t.Context(), o)
	require.NoError(t, err)
	group, err := syscall.Getpgid(p.PID())
	require.NoError(t, err)
	require.NotEqual(t, p.PID(), group)
	require.NoError(t, syscall.Kill(p.PID(), syscall.SIGSTOP))
	eventually(t, "every thread stands", func() bool { return stopped(t, p.PID()) })
	p.Kill()
	select {
	case <-p.Done():
	case <-time.After(30 * time.Second):
		_ = syscall.Kill(p.PID(), syscall.SIGKILL) // It was not collected, so the number is not reused.
		t.Fatal("it is still there")
	}
	require.NoError(t, p.Close(t.Context()))
	assert.Contains(t, p.Ending(), "was killed by the host")
}

func stopped(t *testing.T, pid int) bool {
	stats, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	require.NoError(t, err)
	for _, path := range stats {
		stat, err := os.ReadFile(path)
		if _, after, _ := strings.Cut(string(stat), ") "); err != nil || !strings.HasPrefix(after, "T") {
			return false
		}
	}
	return len(stats) > 0
}

func TestEnvironmentIsAnAllowList(t *testing.T) {
	o := Options{Env: []string{"EXTRA", "PATH"}}
	o.fill()
	o.lookupEnv = func(name string) (string, bool) { return "v", name != "HOME" }
	env := environment(t.Context(), o)
	assert.Contains(t, env, "EXTRA=v")
	assert.Contains(t, env, "PATH=v")
	assert.NotContains(t, strings.Join(env, "\n"), "HOME=")
	assert.Len(t, env, len(passed)-1+1+2, "no name twice: %v", env)
	assert.Equal(t, "/tmp", socketDir(strings.Repeat("x", 61)))
	assert.Equal(t, "/var/tmp", socketDir("/var/tmp"))
}
