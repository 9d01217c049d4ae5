package config

import (
	"errors"
	"strings"

	"github.com/mooncake-go/mooncake/core/config/internal/doctree"
	"github.com/mooncake-go/mooncake/core/config/internal/upstream"
)

// chooseFile picks the file, see Options.File, and where it was named. The origin is that
// of the file itself where Options named it.
func (l *loader) chooseFile() (string, Origin) {
	if l.File != "" {
		return l.File, Origin{Layer: LayerFile, File: l.File}
	}
	var file string
	var from Origin
	for _, name := range []string{"config", "config_path", "conf_path"} {
		text, set := changed(l.Flags, name)
		if !set {
			continue
		}
		o := Origin{Layer: LayerFlag, Name: "--" + name, Upstream: isFileFlag(name)}
		if file != "" && file != text {
			l.problem(o, "", &text, "was also given by "+from.String()+", with another value", "keep one of the two")
		}
		file, from = text, o
	}
	if file == "" && l.environ["MOONCAKE_CONFIG"] != "" {
		file, from = l.environ["MOONCAKE_CONFIG"], Origin{Layer: LayerEnv, Name: "MOONCAKE_CONFIG"}
	}
	if file == "" && l.Role.node() && l.environ["MOONCAKE_CONFIG_PATH"] != "" {
		file, from = l.environ["MOONCAKE_CONFIG_PATH"], Origin{Layer: LayerEnv, Name: "MOONCAKE_CONFIG_PATH", Upstream: true}
	}
	return file, from
}

// file reads the file into the layer. A file may be ours, in sections, or upstream's, flat, or both: a key whose first part is a section is ours.
func (l *loader) file(path string, namedBy Origin) {
	root, err := doctree.ReadFile(path)
	if err != nil {
		o, hint := Origin{Layer: LayerFile, File: path}, ""
		var e *doctree.Error
		if errors.As(err, &e) {
			o.Line = e.Line
		}
		if namedBy.Layer != LayerFile {
			hint = "the file was named by " + namedBy.String()
		}
		l.problem(o, "", nil, err.Error(), hint)
		return
	}
	r := &fileReader{loader: l, path: path, upstream: l.Role.upstreamKeys()}
	for _, f := range root.Fields {
		if r.full() {
			break
		}
		r.entry(strings.Split(f.Key, "."), f.Value)
	}
	l.commit()
}

// fileReader walks the tree of one file.
type fileReader struct {
	*loader
	path     string
	upstream []upstream.Name
}

func (r *fileReader) at(n doctree.Node) Origin {
	return Origin{Layer: LayerFile, File: r.path, Line: n.Line}
}

func (r *fileReader) entry(path []string, n doctree.Node) {
	switch {
	case path[0] == "plugins" && len(path) > 1 && isKind(path[1]):
		r.plugin(path, n)
	case r.isSection(path[0]):
		r.ours(path, n)
	default:
		r.theirs(path, n)
	}
}

func (r *fileReader) isSection(name string) bool {
	for _, f := range r.fields {
		if f.section == name {
			return true
		}
	}
	return false
}

// ours reads a setting of ours, or a section with all that is in it.
func (r *fileReader) ours(path []string, n doctree.Node) {
	key := strings.Join(path, ".")
	if f, ok := r.byKey[key]; ok {
		r.leaf(f, n)
		return
	}
	if !r.inside(key) {
		r.unknown(key, n)
		return
	}
	switch n.Kind {
	case doctree.Map:
		for _, child := range n.Fields {
			r.entry(append(path[:len(path):len(path)], strings.Split(child.Key, ".")...), child.Value)
		}
	case doctree.Null:
	default:
		r.problem(r.at(n), key, nil, "is a section and must be a mapping of keys to values, not "+n.Kind.String(), "")
	}
}

// inside reports whether key is a section, or a part of the way to a setting.
func (r *fileReader) inside(key string) bool {
	for _, f := range r.fields {
		if strings.HasPrefix(f.key, key+".") {
			return true
		}
	}
	return false
}

func (r *fileReader) leaf(f field, n doctree.Node) {
	switch {
	case n.Kind == doctree.Scalar:
		r.assign(f.key, n.Text, r.at(n), nil)
	case n.Kind == doctree.List && f.kind == "list":
		r.list(f.key, n)
	case n.Kind == doctree.Null:
		r.problem(r.at(n), f.key, nil, "has no value", "give it one, or remove the key to leave it at its default")
	default:
		r.problem(r.at(n), f.key, nil, "must be "+f.wants()+", not "+n.Kind.String(), "")
	}
}

func (r *fileReader) list(key string, n doctree.Node) {
	items := []string{}
	for _, item := range n.Items {
		if item.Kind != doctree.Scalar {
			r.problem(r.at(item), key, nil, "must be a list of single values; one of them is "+item.Kind.String(), "")
			return
		}
		items = append(items, item.Text)
	}
	r.put(key, items, r.at(n), false)
}
