package pluginhost

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/internal/testkit/logbuf"
	"github.com/mooncake-go/mooncake/core/pluginhost/find"
	"github.com/mooncake-go/mooncake/core/pluginhost/launch"
	"github.com/mooncake-go/mooncake/core/pluginhost/trust"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/evict"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/wire/kinds"
)

// guarded is a folder with a copy of the test plugin, and a lock file beside it.
type guarded struct {
	*Catalog
	log  *logbuf.Buffer
	path string // of the plugin
	lock string
}

func guard(t *testing.T, mode trust.Mode) guarded {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(faultyDir, "mooncake-plugin-evict-faulty"))
	require.NoError(t, err)
	dir := folder(t)
	g := guarded{log: &logbuf.Buffer{}, path: install(t, dir, "mooncake-plugin-evict-faulty", content), lock: filepath.Join(folder(t), "plugins.lock.yaml")}
	o := Options{Dirs: []string{dir}, Rules: trust.Rules{Mode: mode}, Logger: slog.New(slog.NewTextHandler(g.log, nil))}
	if mode != trust.ModeOff {
		o.Lock = g.lock
	}
	g.Catalog, err = New(nil, o)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, g.Close(context.Background())) })
	return g
}

// change replaces the program by another one that would run as well.
func (g guarded) change(t *testing.T) {
	t.Helper()
	content, err := os.ReadFile(g.path)
	require.NoError(t, err)
	install(t, filepath.Dir(g.path), "new", append(content, "changed"...))
	require.NoError(t, os.Rename(filepath.Join(filepath.Dir(g.path), "new"), g.path))
}

func (g guarded) lockIt(t *testing.T) {
	t.Helper()
	p, err := find.ReadProgram(g.path)
	require.NoError(t, err)
	require.NoError(t, trust.UpdateLock(t.Context(), g.lock, func(l *trust.Lock) error { return l.Set(p.Manifest.ID, p.Platform, p.Locked()) }))
}

func (g guarded) open(t *testing.T) evict.Policy {
	t.Helper()
	p, err := g.OpenEvict(t.Context(), faultyEvict, Spec{}, EvictOptions{Supervision: Supervision{BackoffMin: time.Millisecond, BackoffMax: time.Millisecond, MaxRestarts: 2}})
	require.NoError(t, err)
	return p
}

// executed computes the checksum of the file that a process executes.
func executed(t *testing.T, pid int) string {
	t.Helper()
	f, err := os.Open(fmt.Sprintf("/proc/%d/exe", pid))
	require.NoError(t, err)
	defer f.Close()
	sum, err := find.Checksum(f)
	require.NoError(t, err)
	return sum
}

func TestLockedRunsOnlyWhatIsLocked(t *testing.T) {
	g := guard(t, trust.ModeAuto) // with a lock file: locked
	open := func() error {
		_, err := g.OpenEvict(t.Context(), faultyEvict, Spec{}, EvictOptions{})
		return err
	}
	err := open()
	require.ErrorIs(t, err, errs.FileOpenFail.Err())
	assert.ErrorContains(t, err, "there is no lock file "+g.lock)
	assert.ErrorContains(t, err, "mooncake plugins lock evict/faulty --plugin-lock "+g.lock)

	require.NoError(t, trust.UpdateLock(t.Context(), g.lock, func(l *trust.Lock) error {
		return l.Set(faultyEvict, "linux/s390x", trust.Locked{Version: "1", SHA256: strings.Repeat("a", 64)})
	}))
	e := g.List()[0]
	assert.Equal(t, trust.Unlocked, e.Trust)
	assert.Equal(t, plugin.StateFailed, e.State)
	assert.Contains(t, e.Reason, "does not have it for "+trust.HostPlatform())
	require.Error(t, open())

	g.lockIt(t)
	e = g.List()[0]
	assert.Equal(t, trust.IsLocked, e.Trust)
	assert.Equal(t, plugin.StateAvailable, e.State)
	p := g.open(t)

	// Replaced after it was found: refused at the start.
	g.change(t)
	err = p.Start(t.Context(), nil)
	require.ErrorIs(t, err, errs.FileOpenFail.Err())
	assert.ErrorContains(t, err, "the program was updated or tampered with")
	e = g.List()[0]
	assert.Equal(t, trust.Mismatch, e.Trust)
	assert.Contains(t, e.Reason, e.SHA256[:12])
	require.ErrorContains(t, open(), "tampered with")

	g.lockIt(t)
	p = g.open(t)
	require.NoError(t, p.Start(t.Context(), nil))
	pid := g.Instances()[len(g.Instances())-1].PID
	assert.Equal(t, g.List()[0].SHA256, executed(t, pid))

	require.NoError(t, os.WriteFile(g.lock, []byte("version: 1\nplugins: 7\n"), 0o644))
	assert.ErrorContains(t, open(), g.lock+":2: ", "a damaged lock file trusts nothing")
	require.NoError(t, os.Chmod(g.lock, 0o666))
	assert.ErrorContains(t, open(), "chmod go-w")
	assert.Zero(t, g.log.Count("unchecked"))
}

// TestARestartIsCheckedAsWell: a program that replaced the running one is not started.
func TestARestartIsCheckedAsWell(t *testing.T) {
	g := guard(t, trust.ModeLocked)
	g.lockIt(t)
	locked := g.List()[0].SHA256
	p := g.open(t)
	require.NoError(t, p.Start(t.Context(), nil))
	g.change(t)
	_, err := p.Stats(t.Context())
	require.NoError(t, err, "the running process goes on")
	pid := g.Instances()[0].PID
	assert.Equal(t, locked, executed(t, pid))
	require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
	require.Eventually(t, func() bool { return g.Instances()[0].State == plugin.StateFailed }, 30*time.Second, 2*time.Millisecond)
	assert.Contains(t, g.Instances()[0].Reason, "the program was updated or tampered with")
}

// TestBetweenCheckAndStart: if the file is replaced after the program was admitted, the admitted
// program runs.
func TestBetweenCheckAndStart(t *testing.T) {
	g := guard(t, trust.ModeLocked)
	g.lockIt(t)
	for name, change := range map[string]func(){
		"replaced":    func() { g.change(t) },
		"overwritten": func() { require.NoError(t, os.WriteFile(g.path, []byte("#!/bin/false\n"), 0o755)) },
		"removed":     func() { require.NoError(t, os.Remove(g.path)) },
	} {
		old, err := os.ReadFile(g.path)
		require.NoError(t, err)
		e, image, err := g.finder.Admit(t.Context(), g.path, faultyEvict, g.logger(faultyEvict))
		require.NoError(t, err)
		change()
		p, err := launch.Start(t.Context(), launch.Options{Path: g.path, Image: image, ID: faultyEvict, API: kinds.API(plugin.KindEvict)})
		require.NoError(t, err, name)
		assert.Equal(t, e.SHA256, executed(t, p.PID()), name)
		require.NoError(t, p.Close(context.Background()))
		_ = os.Remove(g.path)
		install(t, filepath.Dir(g.path), filepath.Base(g.path), old)
	}
}

func TestTrustOnFirstUse(t *testing.T) {
	g := guard(t, trust.ModeTOFU)
	e := g.List()[0]
	assert.Equal(t, trust.FirstUse, e.Trust)
	assert.Equal(t, plugin.StateAvailable, e.State)
	assert.NoFileExists(t, g.lock, "looking locks nothing")

	p := g.open(t)
	require.NoError(t, p.Start(t.Context(), nil))
	require.NoError(t, p.Stop(t.Context()))
	l, err := trust.ReadLock(g.lock)
	require.NoError(t, err)
	locked, ok := l.Find(faultyEvict, trust.HostPlatform())
	require.True(t, ok)
	assert.Equal(t, trust.Locked{Version: e.Version, SHA256: e.SHA256}, locked)
	assert.Equal(t, 1, g.log.Count("is run for the first time and locked"))
	assert.Equal(t, trust.IsLocked, g.List()[0].Trust)

	g.change(t)
	_, err = g.OpenEvict(t.Context(), faultyEvict, Spec{}, EvictOptions{})
	require.ErrorIs(t, err, errs.FileOpenFail.Err())
	assert.ErrorContains(t, err, "tampered with")
	after, err := trust.ReadLock(g.lock)
	require.NoError(t, err)
	assert.Equal(t, l, after)
}

func TestOffWarnsEachTime(t *testing.T) {
	g := guard(t, trust.ModeOff)
	e := g.List()[0]
	assert.Equal(t, trust.Unlocked, e.Trust)
	assert.Equal(t, plugin.StateAvailable, e.State)
	for n := 1; n <= 2; n++ {
		p := g.open(t)
		require.NoError(t, p.Start(t.Context(), nil))
		assert.Equal(t, n, g.log.Count("the program is run unchecked"))
		require.NoError(t, p.Stop(t.Context()))
	}
}

// TestEnvAndLimitsReachTheProcess: the process gets the environment and the limits of its own
// plugin and of no other.
func TestEnvAndLimitsReachTheProcess(t *testing.T) {
	t.Setenv("TRUST_TEST_WANTED", "yes")
	t.Setenv("TRUST_TEST_SECRET", "no")
	g := guard(t, trust.ModeOff)
	p, err := g.OpenEvict(t.Context(), faultyEvict, Spec{Env: []string{"TRUST_TEST_WANTED"}, Limits: launch.Limits{Files: 91}}, EvictOptions{})
	require.NoError(t, err)
	require.NoError(t, p.Start(t.Context(), nil))
	in := g.Instances()[0]
	assert.Equal(t, "files 91 (descriptors)", in.Figures["limits"])
	env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", in.PID))
	require.NoError(t, err)
	assert.Contains(t, string(env), "TRUST_TEST_WANTED=yes\x00")
	assert.NotContains(t, string(env), "TRUST_TEST_SECRET")
	limits, err := os.ReadFile(fmt.Sprintf("/proc/%d/limits", in.PID))
	require.NoError(t, err)
	assert.Regexp(t, `Max open files +91 +91`, string(limits))
	require.NoError(t, p.Stop(t.Context()))

	p = g.open(t)
	require.NoError(t, p.Start(t.Context(), nil))
	in = g.Instances()[0]
	assert.NotContains(t, in.Figures, "limits")
	env, err = os.ReadFile(fmt.Sprintf("/proc/%d/environ", in.PID))
	require.NoError(t, err)
	assert.NotContains(t, string(env), "TRUST_TEST_WANTED")
}
