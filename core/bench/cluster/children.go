package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// deepest bounds the generations that are climbed, should processes be replaced meanwhile.
const deepest = 16

// Descendant returns the number of the process below ancestor whose executable has the name.
// A plugin is no child of its host's: a keeper stands between them.
func Descendant(ancestor int, executable string) (int, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return 0, fmt.Errorf("list processes: %w", err)
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || !below(pid, ancestor) {
			continue
		}
		// A sealed or replaced file shows with a suffix; the command line has the name as well.
		line, err := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
		if first, _, _ := strings.Cut(string(line), "\x00"); err == nil && filepath.Base(first) == executable {
			return pid, nil
		}
	}
	return 0, fmt.Errorf("there is no %s below process %d", executable, ancestor)
}

func below(pid, ancestor int) bool {
	for range deepest {
		if pid = parentOf(pid); pid <= 1 || pid == ancestor {
			break
		}
	}
	return pid == ancestor
}

// parentOf returns the parent of a process, 0 where it is gone.
func parentOf(pid int) int {
	s, err := statOf(pid)
	if err != nil {
		return 0
	}
	return s.parent
}
