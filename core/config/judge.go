package config

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/mooncake-go/mooncake/core/config/internal/upstream"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

// judge applies a setting given under upstream's name.
func (l *loader) judge(n upstream.Name, text string, o Origin) {
	verdict, ours, err := n.Judge(text)
	if err != nil && o.Layer == LayerEnv && n.Key == "" && !n.Refuse {
		verdict, err = upstream.Later, nil // it would have no effect either way
	}
	if err != nil {
		l.problem(o, l.subject(o, n.Name), &text, err.Error(), "")
		return
	}
	switch verdict {
	case upstream.Mapped:
		l.assign(n.Key, ours, o, &n)
	case upstream.Later:
		if n.Readers != upstream.Elsewhere {
			l.warn(o, n.Name, "has no effect; not supported yet: "+n.Feature)
		}
	case upstream.Covered:
		l.warn(o, n.Name, "is not needed: "+n.Feature)
	case upstream.Refused:
		l.refuse(o, n.Name, text, n.Feature)
	case upstream.Same:
	}
}

// refuse says that a setting promises what cannot be given yet.
func (l *loader) refuse(o Origin, name, text, feature string) {
	l.problem(o, l.subject(o, name), &text, feature+" is not supported yet, and running without would break what this setting promises",
		"remove it to run without, or stay with upstream where you need it")
}

// assignPlugin puts a plugin's setting into the layer. key is one of pluginFields, or
// plugins.<kind>.<name>.config.<setting>.
func (l *loader) assignPlugin(key, text string, o Origin, n *upstream.Name) {
	path := strings.Split(key, ".")
	if len(path) < 4 || path[0] != "plugins" {
		l.problem(o, key, nil, "unknown key", "")
		return
	}
	if err := (plugin.ID{Kind: path[1], Name: path[2]}).Validate(); err != nil {
		l.problem(o, key, nil, err.Error(), "")
		return
	}
	l.pluginEntry(path[:3], o)
	if path[3] == "config" && len(path) > 4 {
		l.layer.setPath(path, typed(text, n), o)
		return
	}
	for _, f := range pluginFields(strings.Join(path[:3], ".")) {
		if f.key == key {
			l.byKey[key] = f
			l.assign(key, text, o, nil)
			return
		}
	}
	l.problem(o, key, nil, "unknown key", "a plugin has mode, required, env, limits.<limit> and config.<setting>")
}

// typed gives a free-form value the type it looks like, or the one its upstream name has.
func typed(text string, n *upstream.Name) any {
	if n != nil && n.Type == upstream.String {
		return text
	}
	if i, err := strconv.ParseInt(text, 10, 64); err == nil {
		return i
	}
	if f, err := strconv.ParseFloat(text, 64); err == nil && strings.ContainsAny(text, "0123456789") {
		return f
	}
	switch text {
	case "true":
		return true
	case "false":
		return false
	}
	return text
}

// wants says in words what the field takes.
func (f field) wants() string {
	what := map[string]string{
		"bool": "true or false", "int": "a whole number", "port": "a port", "number": "a number", "size": "a size", "duration": "a duration",
		"list": "a list", "plugin": "the name of a plugin", "address": "host:port, a list of them, or etcd://host:port", "socket": "auto, on, off or an absolute path",
		"limit": "auto, off or a size from 64MiB",
		"keep":  "auto, off, systemd, keeper, a directory or the socket of a keeper",
	}[f.kind]
	if what == "" || len(f.enum) > 0 {
		what = "a text"
	}
	if b := f.bounds(); b != "" {
		what = fmt.Sprintf("%s (%s)", what, b)
	}
	return what
}
