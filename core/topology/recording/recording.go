// Package recording keeps the files that describe a machine's topology: as a text that an
// operator can read, send and attach to a test, and as a file system to look at.
//
// The text has a first line that says what it is, and then for each file a line "== path"
// and the file's lines, for each symbolic link a line "== path -> target", and for each
// empty folder a line "== path/". Paths have no leading slash.
package recording

import (
	"maps"
	"path"
	"slices"
	"strings"
)

// Recording is a set of small text files, links and folders. Not for concurrent use while
// something is added.
type Recording struct {
	entries map[string]entry
}

type kind int

const (
	file kind = iota
	link
	dir
)

// entry is what is at a path: the text of a file, the target of a link.
type entry struct {
	kind kind
	text string
}

// New returns an empty recording.
func New() *Recording { return &Recording{entries: map[string]entry{}} }

// File adds a file. The first text that is known of a file stays.
func (r *Recording) File(name, text string) {
	if old, known := r.entries[name]; !known || old.text == "" && old.kind == file {
		r.entries[name] = entry{file, text}
	}
}

// Link adds a symbolic link.
func (r *Recording) Link(name, target string) { r.entries[name] = entry{link, target} }

// Dir adds a folder. A path that is known stays what it is.
func (r *Recording) Dir(name string) {
	if _, known := r.entries[name]; !known {
		r.entries[name] = entry{kind: dir}
	}
}

// names lists the paths in order, without folders that something else lies in.
func (r *Recording) names() []string {
	full := map[string]bool{".": true}
	for name := range r.entries {
		for d := path.Dir(name); !full[d]; d = path.Dir(d) {
			full[d] = true
		}
	}
	names := slices.Sorted(maps.Keys(r.entries))
	return slices.DeleteFunc(names, func(n string) bool { return r.entries[n].kind == dir && full[n] })
}

// quoteLine keeps a line of a file from being taken for a header.
func quoteLine(s string) string {
	if strings.HasPrefix(s, "== ") {
		return " " + s
	}
	return s
}
