package memory

import (
	"bytes"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path"
	"strconv"
	"strings"

	"github.com/mooncake-go/mooncake/sdk/errs"
)

// Limits is how much memory this process can have at all, in bytes.
type Limits struct {
	Physical  uint64 // of the machine; 0 where unknown
	Available uint64 // of it, free or freed on demand at the moment; 0 where unknown
	Cgroup    uint64 // of the tightest control group around the process; 0 for none
}

// ReadLimits reads the limits from a file system rooted at "/"; nil means the machine's.
// What cannot be read counts as unknown.
func ReadLimits(root fs.FS) Limits {
	root = rootOr(root)
	var l Limits
	if b, err := fs.ReadFile(root, "proc/meminfo"); err == nil {
		l.Physical = parseMeminfo(b, "MemTotal")
		l.Available = parseMeminfo(b, "MemAvailable")
	}
	if b, err := fs.ReadFile(root, "proc/self/cgroup"); err == nil {
		if n := groupLimit(root, b, "memory", "memory.max", "memory.limit_in_bytes"); n != noLimit {
			l.Cgroup = n
		}
	}
	return l
}

// Check reports a size that can never fit, code InvalidParams, naming the size and the
// limit.
func (l Limits) Check(size uint64) error {
	if l.Physical != 0 && size > l.Physical {
		return tooLarge(size, l.Physical, "this machine has", "ask for less or use a machine with more memory")
	}
	if l.Cgroup != 0 && size > l.Cgroup {
		return tooLarge(size, l.Cgroup, "the control group of this process allows", "ask for less or raise the memory limit of the container or service")
	}
	return nil
}

func tooLarge(size, limit uint64, who, hint string) error {
	s := &Shortage{Kind: "memory", Need: size, Have: limit,
		text: fmt.Sprintf("%s (%d bytes) were asked for, but %s %s (%d bytes)", Human(size), size, who, Human(limit), limit)}
	return s.error(hint)
}

// parseMeminfo returns a value of /proc/meminfo in bytes, 0 when it is not there.
func parseMeminfo(text []byte, name string) uint64 {
	for line := range bytes.Lines(text) {
		rest, ok := bytes.CutPrefix(line, []byte(name+":"))
		if !ok {
			continue
		}
		f := strings.Fields(string(rest))
		if len(f) != 2 || f[1] != "kB" {
			return 0
		}
		kib, err := strconv.ParseUint(f[0], 10, 64)
		if err != nil || kib > math.MaxUint64>>10 {
			return 0
		}
		return kib << 10
	}
	return 0
}

// groupLimit returns the smallest limit on the way from the process's control group to the
// root, noLimit for none. self is /proc/self/cgroup; v2 and v1 are the names of the file with
// the limit in the two versions of control groups, controller its name in version 1.
func groupLimit(root fs.FS, self []byte, controller, v2, v1 string) uint64 {
	best := uint64(noLimit)
	eachGroup(self, controller, func(two bool, dir string) {
		file := v1
		if two {
			file = v2
		}
		if n, ok := readNumber(root, path.Join(dir, file)); ok {
			best = min(best, n)
		}
	})
	return best
}

// eachGroup calls f for the folders of the process's control group and of its ancestors, in both
// versions. Inside a container the path is often that of the host and does not exist here; the
// mount's root is then the group's own.
func eachGroup(self []byte, controller string, f func(two bool, dir string)) {
	for line := range bytes.Lines(self) {
		l := strings.SplitN(strings.TrimSpace(string(line)), ":", 3)
		if len(l) != 3 {
			continue
		}
		two, base := l[0] == "0" && l[1] == "", "sys/fs/cgroup"
		if !two {
			if !strings.Contains(","+l[1]+",", ","+controller+",") {
				continue
			}
			base += "/" + controller
		}
		for dir := path.Clean("/" + l[2]); ; dir = path.Dir(dir) {
			if f(two, path.Join(base, dir)); dir == "/" {
				break
			}
		}
	}
}

// readNumber reads a file of a control group, false for one that is not there.
func readNumber(root fs.FS, name string) (uint64, bool) {
	b, err := fs.ReadFile(root, name)
	if err != nil {
		return 0, false
	}
	return parseGroupLimit(b), true
}

// noLimit is the limit of a control group that has none.
const noLimit = math.MaxUint64

// parseGroupLimit returns noLimit for "max" and for version 1's form of it, a number near
// 2^63.
func parseGroupLimit(b []byte) uint64 {
	v, err := strconv.ParseUint(strings.TrimSpace(string(b)), 10, 64)
	if err != nil || v >= 1<<62 {
		return noLimit
	}
	return v
}

// Human formats a number of bytes with a binary unit and at most one decimal.
func Human(n uint64) string {
	const units = "KMGTPE"
	if n < 1<<10 {
		return fmt.Sprintf("%d B", n)
	}
	v, u := float64(n)/1024, 0
	for v >= 1024 && u < len(units)-1 {
		v, u = v/1024, u+1
	}
	return strings.TrimSuffix(fmt.Sprintf("%.1f", v), ".0") + " " + units[u:u+1] + "iB"
}

// rootOr returns the machine's own file system for nil.
func rootOr(root fs.FS) fs.FS {
	if root == nil {
		return os.DirFS("/")
	}
	return root
}

// Shortage says that memory of one kind does not suffice. It is in the chain of an
// InvalidParams, for errors.As; its text and the error's hint name the numbers and the
// command that would change them.
type Shortage struct {
	// Kind is what there is too little of, as a noun: "memory", "huge pages of 2MB".
	Kind string
	// Need and Have are in bytes.
	Need, Have uint64
	// Run is the command that provides what is missing, empty where there is none.
	Run string

	text string
}

// Error implements error.
func (s *Shortage) Error() string { return s.text }

// Missing returns the number of bytes that are missing.
func (s *Shortage) Missing() uint64 {
	if s.Need < s.Have {
		return 0
	}
	return s.Need - s.Have
}

func (s *Shortage) error(hint string) error {
	if s.Run != "" {
		hint = fmt.Sprintf("run as root: %s; or %s", s.Run, hint)
	}
	return errs.WithHint(errs.Wrap(errs.InvalidParams, "memory: allocate", s), "%s", hint)
}
