package launch

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// hierarchy is a folder of control groups below which groups may be made.
type hierarchy struct {
	dir         string
	v2          bool
	controllers []string
}

// mounted lists the folders of this process's control groups. In version 2 a group cannot be
// divided while a process is in it. So the group above comes first, if it is delegated to this
// process.
func mounted() []hierarchy {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil
	}
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil
	}
	return hierarchies(string(mounts), string(own), delegated)
}

// hierarchies reads both files. Version 2 comes first.
func hierarchies(mountinfo, own string, delegated func(dir string) bool) []hierarchy {
	var v1, v2 []hierarchy
	for _, line := range strings.Split(own, "\n") {
		parts := strings.SplitN(line, ":", 3)
		if len(parts) != 3 {
			continue
		}
		dir, root := mountOf(mountinfo, parts[1])
		rel, inside := strings.CutPrefix(parts[2], strings.TrimSuffix(root, "/"))
		if dir == "" || !inside || rel != "" && rel[0] != '/' {
			continue
		}
		group := filepath.Join(dir, rel)
		if parts[1] != "" {
			v1 = append(v1, hierarchy{dir: group, controllers: strings.Split(parts[1], ",")})
			continue
		}
		if above := filepath.Dir(group); group != dir && delegated(above) {
			v2 = append(v2, hierarchy{dir: above, v2: true, controllers: controllersOf(above)})
		}
		v2 = append(v2, hierarchy{dir: group, v2: true, controllers: controllersOf(group)})
	}
	return append(v2, v1...)
}

// mountOf returns where a hierarchy is mounted, and which group is the root of the mount.
// controllers are those of version 1, joined with commas; empty for version 2.
func mountOf(mountinfo, controllers string) (dir, root string) {
	for _, line := range strings.Split(mountinfo, "\n") {
		before, after, ok := strings.Cut(line, " - ")
		head, tail := strings.Fields(before), strings.Fields(after)
		if !ok || len(head) < 5 || len(tail) < 3 {
			continue
		}
		match := tail[0] == "cgroup2" && controllers == ""
		if tail[0] == "cgroup" && controllers != "" {
			match = true
			for _, c := range strings.Split(controllers, ",") {
				match = match && slices.Contains(strings.Split(tail[2], ","), c)
			}
		}
		if match {
			return head[4], head[3]
		}
	}
	return "", ""
}

func controllersOf(dir string) []string {
	text, _ := os.ReadFile(filepath.Join(dir, "cgroup.controllers"))
	return strings.Fields(string(text))
}

// delegated reports whether a group is delegated to the user of this process, as systemd does
// with Delegate=yes.
func delegated(dir string) bool {
	for _, name := range []string{"trusted.delegate", "user.delegate"} {
		var value [1]byte
		if n, err := unix.Getxattr(dir, name, value[:]); err == nil && n == 1 && value[0] == '1' {
			return true
		}
	}
	return os.Getuid() != 0 && unix.Access(dir, unix.W_OK) == nil
}
