package topology

import (
	"io/fs"
	"path"
	"slices"
	"strings"
)

// real returns the path of a file without links, false for one that is not there or not
// below the root. Notes are of real paths only, so that they agree with each other.
func (l *look) real(name string) (string, bool) {
	left, done, links := strings.Split(name, "/"), ".", 0
	for len(left) > 0 {
		next := path.Join(done, left[0])
		left = left[1:]
		if !fs.ValidPath(next) || !l.more() {
			return "", false
		}
		target, err := l.root.ReadLink(next)
		if err != nil {
			done = next
			continue
		}
		if links++; links > maxLinks {
			l.warn("%s: it leads through more than %d links", name, maxLinks)
			return "", false
		}
		if target == "" || slices.ContainsFunc(strings.Split(target, "/"), func(part string) bool { return part != "" && !plain(part) }) {
			l.warn("%s: it leads to %.80q, which no device is called", next, target)
			return "", false
		}
		l.notes.Link(next, target)
		whole := path.Join(path.Dir(next), target)
		if path.IsAbs(target) {
			whole = strings.TrimPrefix(path.Clean(target), "/")
		}
		left, done = append(strings.Split(whole, "/"), left...), "."
	}
	info, err := fs.Stat(l.root, done)
	if err != nil {
		return "", false
	}
	if info.IsDir() {
		l.notes.Dir(done)
	} else {
		l.notes.File(done, "")
	}
	return done, true
}
