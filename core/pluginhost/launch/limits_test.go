package launch

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

func procFile(pid int, name string) string { return fmt.Sprintf("/proc/%d/%s", pid, name) }

func noGroups() []hierarchy { return nil }

// TestLimitsHoldFromTheFirstInstruction: a program that reads its limits at once sees them.
func TestLimitsHoldFromTheFirstInstruction(t *testing.T) {
	o, _ := options("")
	o.Path = program(t, []byte("#!/bin/sh\necho n=$(ulimit -n) d=$(ulimit -d) c=$(ulimit -c) >&2\nexit 9\n"))
	o.Limits, o.system = Limits{Files: 63, Memory: 128 << 20}, system{cgroups: noGroups}
	_, err := Start(t.Context(), o)
	assert.ErrorContains(t, err, "n=63 d=131072 c=0")
}

// limitsOf reads soft and hard limit of a process by the kernel's name.
func limitsOf(t *testing.T, pid int, name string) []string {
	t.Helper()
	text, err := os.ReadFile(procFile(pid, "limits"))
	require.NoError(t, err)
	m := regexp.MustCompile(`(?m)^` + name + ` +(\S+) +(\S+)`).FindStringSubmatch(string(text))
	require.NotNil(t, m, "%s in %s", name, text)
	return m[1:]
}

func TestLimitsOfAPlugin(t *testing.T) {
	for _, traced := range []bool{true, false} {
		o, log := options("")
		o.Limits = Limits{Files: 77, Memory: 1 << 30, Processes: 500}
		o.system = system{cgroups: noGroups, user: func() int { return 12345 }}
		if !traced {
			o.system.start = func(*exec.Cmd) error { return unix.EPERM }
		}
		p, err := Start(t.Context(), o)
		require.NoError(t, err)
		assert.Equal(t, []string{"77", "77"}, limitsOf(t, p.PID(), "Max open files"))
		assert.Equal(t, []string{"1073741824", "1073741824"}, limitsOf(t, p.PID(), "Max data size"))
		assert.Equal(t, []string{"0", "0"}, limitsOf(t, p.PID(), "Max core file size"))
		assert.Equal(t, []string{"500", "500"}, limitsOf(t, p.PID(), "Max processes"), "user 12345 has none so far")
		assert.Contains(t, p.Limits(), "files 77 (descriptors)")
		assert.Contains(t, p.Limits(), "memory 1GiB (own memory of each process)")
		assert.Equal(t, traced, !strings.Contains(p.Limits(), "first moment"), p.Limits())
		assert.Equal(t, traced, !strings.Contains(log.String(), "not all limits"), log.String())
		require.NoError(t, p.Close(context.Background()))
	}
	o, _ := options("")
	p, err := Start(t.Context(), o)
	require.NoError(t, err)
	assert.Empty(t, p.Limits())
	require.NoError(t, p.Close(context.Background()))
}

// TestRequiredLimits: a limit that cannot be enforced keeps the plugin from running, and nothing
// is left. Without required a warning names the limit.
func TestRequiredLimits(t *testing.T) {
	o, log := options("")
	o.Limits, o.system = Limits{CPU: 0.5, Required: true}, system{cgroups: noGroups}
	_, err := Start(t.Context(), o)
	require.ErrorIs(t, err, errs.NotSupported.Err())
	assert.ErrorContains(t, err, "no control group")
	assert.ErrorContains(t, err, "limits.required")

	o.Limits.Required = false
	p, err := Start(t.Context(), o)
	require.NoError(t, err)
	assert.Contains(t, p.Limits(), "not enforced: cpu")
	assert.Contains(t, log.String(), "level=WARN msg=\"not all limits of the plugin are enforced\"")
	require.NoError(t, p.Close(context.Background()))

	o.Limits, o.system = Limits{Processes: 5, Required: true}, system{cgroups: noGroups, user: func() int { return 0 }}
	_, err = Start(t.Context(), o)
	require.ErrorIs(t, err, errs.NotSupported.Err(), "the kernel counts no processes of root")
}

// groupsHere returns the hierarchies in which a group with a controller can be made.
func groupsHere(t *testing.T, controller string) []hierarchy {
	t.Helper()
	for _, h := range mounted() {
		if !slices.Contains(h.controllers, controller) {
			continue
		}
		d, err := h.make(groupPrefix+"evict-probe.0.0", []string{controller}, Limits{Memory: 1 << 30, Processes: 100, CPU: 1})
		if err == nil {
			require.NoError(t, os.Remove(d.path))
			return []hierarchy{h}
		}
	}
	t.Skipf("no control group with the controller %s can be made here", controller)
	return nil
}

func TestControlGroup(t *testing.T) {
	for controller, want := range map[string]struct {
		limits Limits
		shown  string
		files  []string // in version 1 and 2
		value  string
	}{
		"memory": {Limits{Memory: 256 << 20}, "memory 256MiB (control group)", []string{"memory.limit_in_bytes", "memory.max"}, "268435456"},
		"pids":   {Limits{Processes: 100}, "processes 100 (control group)", []string{"pids.max"}, "101"},
		"cpu":    {Limits{CPU: 0.5}, "cpu 0.5 (control group)", []string{"cpu.cfs_quota_us", "cpu.max"}, "50000"},
	} {
		t.Run(controller, func(t *testing.T) {
			h := groupsHere(t, controller)
			o, _ := options("")
			o.Limits, o.system = want.limits, system{cgroups: func() []hierarchy { return h }}
			o.Limits.Required = true
			p, err := Start(t.Context(), o)
			require.NoError(t, err)
			assert.Equal(t, want.shown, p.Limits())
			require.Len(t, p.child.limits.group.dirs, 1)
			dir := p.child.limits.group.dirs[0].path
			var got string
			for _, f := range want.files {
				text, err := os.ReadFile(filepath.Join(dir, f))
				if err == nil {
					got = string(text)
				}
			}
			assert.Regexp(t, "^"+want.value+`\b`, got, "with the keeper, for processes")
			groups, err := os.ReadFile(procFile(p.PID(), "cgroup"))
			require.NoError(t, err)
			assert.Contains(t, string(groups), filepath.Base(dir))
			require.NoError(t, p.Close(context.Background()))
			assert.NoDirExists(t, dir)
		})
	}
}

// TestAGroupCountsProcesses: the child's descendants count, and those that left its process group
// end with it.
func TestAGroupCountsProcesses(t *testing.T) {
	h := groupsHere(t, "pids")
	o, _ := options("")
	o.Path = program(t, []byte("#!/bin/sh\nsetsid sleep 1000 >/dev/null 2>&1 </dev/null 3>&- 4>&- & echo child=$! >&2\nfor i in 1 2 3 4 5 6 7 8 9; do sleep 1000 & done\nexit 9\n"))
	o.Limits, o.system = Limits{Processes: 4}, system{cgroups: func() []hierarchy { return h }}
	_, err := Start(t.Context(), o)
	require.Error(t, err)
	assert.Regexp(t, "(?i)fork", err.Error())
	var child int
	m := regexp.MustCompile(`child=(\d+)`).FindStringSubmatch(err.Error())
	require.NotNil(t, m, err.Error())
	_, _ = fmt.Sscan(m[1], &child)
	eventually(t, "the child that left the process group is gone", func() bool { return gone(child) })
}

func TestSweepRemovesWhatDeadHostsLeft(t *testing.T) {
	dir := t.TempDir()
	dead := exec.Command("true")
	require.NoError(t, dead.Run())
	for name, stays := range map[string]bool{
		fmt.Sprintf("%sevict-x.%d.1", groupPrefix, dead.Process.Pid): false,
		fmt.Sprintf("%sevict-x.%d.1", groupPrefix, os.Getpid()):      true,
		groupPrefix + "strange":                                      true, "other.0.0": true,
	} {
		path := filepath.Join(dir, name)
		require.NoError(t, os.Mkdir(path, 0o700))
		sweep(dir)
		_, err := os.Stat(path)
		assert.Equal(t, stays, err == nil, name)
	}
}

// TestHierarchies reads the kernel's files as they are on different machines.
func TestHierarchies(t *testing.T) {
	const v2 = "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"
	const v1 = "33 32 0:29 /docker/1 /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n" +
		"34 32 0:30 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
	yes, no := func(string) bool { return true }, func(string) bool { return false }
	dirs := func(hs []hierarchy) (out []string) {
		for _, h := range hs {
			out = append(out, h.dir)
		}
		return out
	}
	assert.Equal(t, []string{"/sys/fs/cgroup/a/b"}, dirs(hierarchies(v2, "0::/a/b\n", no)))
	assert.Equal(t, []string{"/sys/fs/cgroup/a", "/sys/fs/cgroup/a/b"}, dirs(hierarchies(v2, "0::/a/b\n", yes)))
	assert.Equal(t, []string{"/sys/fs/cgroup"}, dirs(hierarchies(v2, "0::/\n", yes)), "nothing above the mount")
	assert.Equal(t, []string{"/sys/fs/cgroup/cpu,cpuacct/x", "/sys/fs/cgroup/memory"},
		dirs(hierarchies(v1, "4:cpuacct,cpu:/docker/1/x\n3:memory:/\n2:pids:/\n1:name=systemd:/\n0::/\n", yes)))
	assert.Empty(t, hierarchies(v1, "4:cpu,cpuacct:/docker/12\n", yes), "a group that the mount does not show")
	assert.Empty(t, hierarchies("garbage\n- -\n", "x\n::\n0::\n", yes))
}

// TestVersion2 works on a folder that looks like a hierarchy. TestControlGroup tests the kernel,
// on a machine that allows it.
func TestVersion2(t *testing.T) {
	dir := t.TempDir()
	control := filepath.Join(dir, "cgroup.subtree_control")
	require.NoError(t, os.WriteFile(control, []byte("memory\n"), 0o600))
	l := &limiter{want: Limits{Memory: 1 << 20, Processes: 7, CPU: 1.5}, id: plugin.ID{Kind: "evict", Name: "x"}}
	l.system.cgroups = func() []hierarchy {
		return []hierarchy{{dir: dir, v2: true, controllers: []string{"cpu", "memory", "pids", "io"}}}
	}
	g := newCgroup(l)
	assert.Empty(t, g.why)
	require.Len(t, g.dirs, 1)
	assert.Empty(t, g.enter(4711))
	for file, want := range map[string]string{
		"memory.max": "1048576", "pids.max": "7", "cpu.max": "150000 100000", "cgroup.procs": "4711", "memory.oom.group": "1",
		"../cgroup.subtree_control": "+cpu +pids",
	} {
		text, err := os.ReadFile(filepath.Join(g.dirs[0].path, file))
		require.NoError(t, err)
		assert.Equal(t, want, string(text), file)
	}
	l.shared = true // a transport: the pool's pages must not count as its own
	g = newCgroup(l)
	assert.NotContains(t, g.dirs[0].controllers, "memory")
}

// TestALimitRaisesNothing: a limit never raises a hard limit that the process already has.
func TestALimitRaisesNothing(t *testing.T) {
	cmd := exec.Command("sleep", "1000")
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	pid := cmd.Process.Pid
	require.NoError(t, unix.Prlimit(pid, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 50, Max: 60}, nil))
	l := &limiter{want: Limits{Files: 100}}
	l.rlimit(pid, "files", unix.RLIMIT_NOFILE, l.want.Files, "descriptors")
	assert.Equal(t, []string{"files 60 (descriptors)"}, l.held)
	var now unix.Rlimit
	require.NoError(t, unix.Prlimit(pid, unix.RLIMIT_NOFILE, nil, &now))
	assert.Equal(t, unix.Rlimit{Cur: 60, Max: 60}, now)

	// A transport works on the memory of its host, which a group would count as its own.
	for shared, want := range map[bool]string{false: "memory 1GiB (control group)", true: "memory 1GiB (own memory of each process)"} {
		l := &limiter{want: Limits{Memory: 1 << 30}, shared: shared}
		l.memory(pid, nil)
		assert.Equal(t, []string{want}, l.held)
	}
}
