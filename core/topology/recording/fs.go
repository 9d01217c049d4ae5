package recording

import (
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"
)

// maxHops bounds the links that a path may lead through.
const maxHops = 40

// FS returns the recording as a file system that follows links, also absolute ones, within
// itself. It is a copy; safe for concurrent use.
func (r *Recording) FS() fs.ReadLinkFS {
	t := tree{nodes: map[string]*node{".": {name: ".", kind: dir}}}
	for _, name := range r.names() {
		e := r.entries[name]
		t.add(name, &node{name: path.Base(name), kind: e.kind, text: e.text})
	}
	for _, n := range t.nodes {
		slices.SortFunc(n.children, func(a, b *node) int { return strings.Compare(a.name, b.name) })
	}
	return t
}

type tree struct{ nodes map[string]*node }

type node struct {
	name     string
	kind     kind
	text     string
	children []*node
}

func (t tree) add(name string, n *node) {
	t.nodes[name] = n
	parent := path.Dir(name)
	if t.nodes[parent] == nil {
		t.add(parent, &node{name: path.Base(parent), kind: dir})
	}
	t.nodes[parent].children = append(t.nodes[parent].children, n)
}

// find returns what is at a path; the last element is followed if it is a link and follow
// says so.
func (t tree) find(op, name string, follow bool) (*node, error) {
	fail := func(err error) (*node, error) { return nil, &fs.PathError{Op: op, Path: name, Err: err} }
	if !fs.ValidPath(name) {
		return fail(fs.ErrInvalid)
	}
	left, done, hops := strings.Split(name, "/"), ".", 0
	for len(left) > 0 {
		next := path.Join(done, left[0])
		left = left[1:]
		n := t.nodes[next]
		switch {
		case n == nil:
			return fail(fs.ErrNotExist)
		case n.kind != link || len(left) == 0 && !follow:
			done = next
			continue
		}
		if hops++; hops > maxHops {
			return fail(fs.ErrInvalid)
		}
		target := path.Join(done, n.text)
		if path.IsAbs(n.text) {
			target = strings.TrimPrefix(path.Clean(n.text), "/")
		}
		if !fs.ValidPath(target) {
			return fail(fs.ErrNotExist)
		}
		left, done = append(strings.Split(target, "/"), left...), "."
	}
	return t.nodes[done], nil
}

// Open implements fs.FS.
func (t tree) Open(name string) (fs.File, error) {
	n, err := t.find("open", name, true)
	if err != nil {
		return nil, err
	}
	return &handle{node: n, shown: path.Base(name), text: strings.NewReader(n.text)}, nil
}

// ReadLink implements fs.ReadLinkFS.
func (t tree) ReadLink(name string) (string, error) {
	n, err := t.find("readlink", name, false)
	if err != nil {
		return "", err
	}
	if n.kind != link {
		return "", &fs.PathError{Op: "readlink", Path: name, Err: fs.ErrInvalid}
	}
	return n.text, nil
}

// Lstat implements fs.ReadLinkFS.
func (t tree) Lstat(name string) (fs.FileInfo, error) {
	n, err := t.find("lstat", name, false)
	if err != nil {
		return nil, err
	}
	return info{n, path.Base(name)}, nil
}

// handle is an open file or folder.
type handle struct {
	node  *node
	shown string // the name it was opened by
	text  *strings.Reader
	read  int // children that were listed
}

func (h *handle) Stat() (fs.FileInfo, error) { return info{h.node, h.shown}, nil }
func (h *handle) Close() error               { return nil }

func (h *handle) Read(b []byte) (int, error) {
	if h.node.kind == dir {
		return 0, &fs.PathError{Op: "read", Path: h.shown, Err: fs.ErrInvalid}
	}
	return h.text.Read(b)
}

// ReadDir implements fs.ReadDirFile.
func (h *handle) ReadDir(n int) ([]fs.DirEntry, error) {
	if h.node.kind != dir {
		return nil, &fs.PathError{Op: "readdir", Path: h.shown, Err: fs.ErrInvalid}
	}
	rest := h.node.children[h.read:]
	if n > 0 && len(rest) == 0 {
		return nil, io.EOF
	}
	if n > 0 {
		rest = rest[:min(n, len(rest))]
	}
	h.read += len(rest)
	out := make([]fs.DirEntry, len(rest))
	for i, c := range rest {
		out[i] = fs.FileInfoToDirEntry(info{c, c.name})
	}
	return out, nil
}

// info describes a node under the name that was asked for.
type info struct {
	*node
	shown string
}

func (i info) Name() string { return i.shown }
func (i info) Size() int64 {
	if i.kind == file {
		return int64(len(i.text))
	}
	return 0
}

func (i info) Mode() fs.FileMode {
	switch i.kind {
	case link:
		return fs.ModeSymlink | 0o777
	case dir:
		return fs.ModeDir | 0o555
	default:
		return 0o444
	}
}
func (info) ModTime() time.Time { return time.Time{} }
func (i info) IsDir() bool      { return i.kind == dir }
func (info) Sys() any           { return nil }
