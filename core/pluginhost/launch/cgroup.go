package launch

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// groupPrefix begins the names of the groups of plugins. The plugin, the host's process number
// and the number of the start follow.
const groupPrefix = "mooncake-plugin-"

// groupEnd bounds the wait for killed processes of a group to end.
const groupEnd = 2 * time.Second

var groups atomic.Uint64

// cgroup is the control group of one child. It has a folder in each hierarchy with a controller
// that is needed; version 2 has only one hierarchy. A nil cgroup stands for no group.
type cgroup struct {
	dirs []groupDir
	why  map[string]error // by controller: why it is missing
}

type groupDir struct {
	path        string
	v2          bool
	controllers []string
}

// newCgroup makes a group for the limits that need one. why names the controllers that are
// missing.
func newCgroup(l *limiter) *cgroup {
	need := map[string]bool{"memory": l.want.Memory > 0 && !l.shared, "pids": l.want.Processes > 0, "cpu": l.want.CPU > 0}
	g := &cgroup{why: map[string]error{}}
	want := l.want
	if l.kept != nil {
		want.Processes++ // the keeper
	}
	name := fmt.Sprintf("%s%s-%s.%d.%d", groupPrefix, l.id.Kind, l.id.Name, os.Getpid(), groups.Add(1))
	for c, needed := range need {
		if needed {
			g.why[c] = errors.New("there is no control group that this process may divide")
		}
	}
	for _, h := range l.system.hierarchies() {
		var wanted []string
		for c := range g.why {
			if slices.Contains(h.controllers, c) {
				wanted = append(wanted, c)
			}
		}
		if len(wanted) == 0 {
			continue
		}
		slices.Sort(wanted)
		sweep(h.dir)
		dir, err := h.make(name, wanted, want)
		for _, c := range wanted {
			if g.why[c] = err; err == nil {
				delete(g.why, c)
			}
		}
		if err == nil {
			g.dirs = append(g.dirs, dir)
		}
	}
	return g
}

// make makes the group in one hierarchy.
func (h hierarchy) make(name string, controllers []string, want Limits) (groupDir, error) {
	d := groupDir{path: filepath.Join(h.dir, name), v2: h.v2, controllers: controllers}
	if h.v2 {
		if err := h.enable(controllers); err != nil {
			return d, err
		}
	}
	if err := os.Mkdir(d.path, 0o755); err != nil { //nolint:gosec // as all control groups
		return d, err
	}
	for _, c := range controllers {
		file, value := setting(h.v2, c, want)
		if err := os.WriteFile(filepath.Join(d.path, file), []byte(value), 0o600); err != nil {
			_ = os.Remove(d.path)
			return d, err
		}
		if period := filepath.Join(d.path, "cpu.cfs_period_us"); c == "cpu" && !h.v2 {
			_ = os.WriteFile(period, []byte(strconv.Itoa(cpuPeriod)), 0o600) // which is the default
		}
	}
	if h.v2 && slices.Contains(controllers, "memory") {
		_ = os.WriteFile(filepath.Join(d.path, "memory.oom.group"), []byte("1"), 0o600) // the whole plugin or nothing
	}
	return d, nil
}

// cpuPeriod is the period of the CPU quota, in microseconds.
const cpuPeriod = 100_000

func setting(v2 bool, controller string, want Limits) (file, value string) {
	quota := strconv.FormatInt(max(1000, int64(want.CPU*cpuPeriod)), 10)
	switch {
	case controller == "pids":
		return "pids.max", strconv.FormatUint(want.Processes, 10)
	case controller == "memory" && v2:
		return "memory.max", strconv.FormatUint(want.Memory, 10)
	case controller == "memory":
		return "memory.limit_in_bytes", strconv.FormatUint(want.Memory, 10)
	case v2:
		return "cpu.max", quota + " " + strconv.Itoa(cpuPeriod)
	}
	return "cpu.cfs_quota_us", quota
}

// enable enables controllers for the groups below. The kernel refuses it for a group that has
// processes of its own.
func (h hierarchy) enable(controllers []string) error {
	file := filepath.Join(h.dir, "cgroup.subtree_control")
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var add []string
	for _, c := range controllers {
		if !slices.Contains(strings.Fields(string(text)), c) {
			add = append(add, "+"+c)
		}
	}
	if len(add) == 0 {
		return nil
	}
	err = os.WriteFile(file, []byte(strings.Join(add, " ")), 0o600)
	if errors.Is(err, unix.EBUSY) {
		return errors.New("the control group of this process cannot be divided while the process itself is in it")
	}
	return err
}

// enter puts a stopped process into the group. It returns, by controller, why a limit does not
// hold.
func (g *cgroup) enter(pid int) map[string]error {
	why := g.why
	for _, d := range g.dirs {
		err := os.WriteFile(filepath.Join(d.path, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0o600)
		for _, c := range d.controllers {
			if err != nil {
				why[c] = err
			}
		}
	}
	return why
}

// remove kills the processes that are left in the group, even those that left the child's process
// group, and removes the group.
func (g *cgroup) remove() {
	if g == nil {
		return
	}
	deadline := time.Now().Add(groupEnd)
	for _, d := range g.dirs {
		for {
			d.kill()
			err := os.Remove(d.path)
			if err == nil || errors.Is(err, fs.ErrNotExist) || time.Now().After(deadline) {
				break // sweep removes the rest when the host starts the next child
			}
			time.Sleep(2 * time.Millisecond)
		}
	}
	g.dirs = nil
}

func (d groupDir) kill() {
	if d.v2 && os.WriteFile(filepath.Join(d.path, "cgroup.kill"), []byte("1"), 0o600) == nil {
		return
	}
	text, _ := os.ReadFile(filepath.Join(d.path, "cgroup.procs"))
	for _, line := range strings.Fields(string(text)) {
		if pid, err := strconv.Atoi(line); err == nil && pid > 1 {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
	}
}

// sweep removes the empty groups of hosts that ended without removing them.
func sweep(dir string) {
	left, _ := filepath.Glob(filepath.Join(dir, groupPrefix+"*"))
	for _, path := range left {
		parts := strings.Split(filepath.Base(path), ".")
		if len(parts) != 3 {
			continue
		}
		if pid, err := strconv.Atoi(parts[1]); err == nil && errors.Is(unix.Kill(pid, 0), unix.ESRCH) {
			_ = os.Remove(path) // refused where it is not empty
		}
	}
}
