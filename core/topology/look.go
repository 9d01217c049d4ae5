package topology

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// Bounds of what is looked at.
const (
	maxFile    = 64 << 10  // bytes of one file
	maxEntries = 16 << 10  // of one folder
	maxLinks   = 40        // that one path may lead through
	maxLooks   = 2_000_000 // files, folders and links of one machine
	maxNode    = 1023      // the largest NUMA node that Linux knows
	maxList    = 1024      // devices of one kind
)

// notes is told what was looked at.
type notes interface {
	File(name, text string)
	Link(name, target string)
	Dir(name string)
}

// discard takes no notes.
type discard struct{}

func (discard) File(string, string) {}
func (discard) Link(string, string) {}
func (discard) Dir(string)          {}

// look reads a tree within bounds. Not for concurrent use.
type look struct {
	root     fs.ReadLinkFS
	notes    notes
	warnings []string
	looks    int
}

func (l *look) warn(format string, args ...any) {
	if len(l.warnings) < maxList {
		l.warnings = append(l.warnings, fmt.Sprintf(format, args...))
	}
}

// more counts a look and says whether it may be taken.
func (l *look) more() bool {
	if l.looks++; l.looks == maxLooks {
		l.warn("the tree is larger than any machine's; the rest of it is left out")
	}
	return l.looks < maxLooks
}

// raw returns the content of a file at a real path, false for none that can be read.
func (l *look) raw(name string) (string, bool) {
	// A named pipe would wait for its writer.
	if info, err := fs.Stat(l.root, name); err != nil || !info.Mode().IsRegular() {
		return "", false
	}
	f, err := l.root.Open(name)
	if err != nil {
		if errors.Is(err, fs.ErrPermission) {
			l.warn("%s: permission denied", name)
		}
		return "", false
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return "", false // The kernel's answer for what does not apply, such as the speed of a port that is down.
	}
	if len(b) > maxFile {
		l.warn("%s: it has more than %d bytes", name, maxFile)
		return "", false
	}
	return string(b), true
}

// lines returns the content of a text file.
func (l *look) lines(name string) string {
	name, ok := l.real(name)
	if !ok {
		return ""
	}
	s, ok := l.raw(name)
	if !ok {
		return ""
	}
	if strings.ContainsFunc(s, func(r rune) bool { return r > unicode.MaxASCII || !unicode.IsPrint(r) && r != '\n' && r != '\t' }) {
		l.warn("%s: it is not text", name)
		return ""
	}
	l.notes.File(name, s)
	return s
}

// text returns the one line of a file without the blanks around, empty for none.
func (l *look) text(name string) string {
	s := strings.TrimSpace(l.lines(name))
	if len(s) > 4096 || strings.ContainsAny(s, "\n\t") {
		l.warn("%s: it is not one line", name)
		return ""
	}
	return s
}

// number returns the number in a file, or otherwise where there is none within the bounds.
func (l *look) number(name string, low, high, otherwise int) int {
	s := l.text(name)
	if s == "" {
		return otherwise
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < low || n > high {
		l.warn("%s: %.40q is not a number from %d to %d", name, s, low, high)
		return otherwise
	}
	return n
}

// node returns the NUMA node of a device's folder.
func (l *look) node(dir string) int {
	return l.number(dir+"/numa_node", NoNode, maxNode, NoNode)
}

// exists reports whether there is such a file or folder.
func (l *look) exists(name string) bool {
	_, ok := l.real(name)
	return ok
}

// list returns the names in a folder in the order of their numbers: mlx5_2 before mlx5_10.
// Those that no device would have are left out.
func (l *look) list(dir string) []string {
	dir, ok := l.real(dir)
	if !ok {
		return nil
	}
	if info, err := fs.Stat(l.root, dir); err != nil || !info.IsDir() {
		return nil
	}
	f, err := l.root.Open(dir)
	if err != nil {
		return nil
	}
	defer f.Close()
	d, ok := f.(fs.ReadDirFile)
	if !ok {
		return nil
	}
	entries, err := d.ReadDir(maxEntries + 1)
	if err != nil && !errors.Is(err, io.EOF) {
		l.warn("%s: it cannot be listed", dir)
	}
	if len(entries) > maxEntries {
		l.warn("%s: it has more than %d entries; only some are looked at", dir, maxEntries)
	}
	var names []string
	for _, e := range entries[:min(len(entries), maxEntries)] {
		if !plain(e.Name()) {
			l.warn("%s: %.80q is not the name of a device", dir, e.Name())
			continue
		}
		names = append(names, e.Name())
	}
	slices.SortFunc(names, natural)
	return names
}

// plain reports whether a name is one that the kernel gives to devices.
func plain(name string) bool {
	return name != "" && len(name) <= 64 && !strings.ContainsFunc(name, func(r rune) bool {
		return r <= ' ' || r > '~' || strings.ContainsRune(`"'\/,`, r)
	})
}
