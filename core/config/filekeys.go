package config

import (
	"slices"
	"strings"

	"github.com/mooncake-go/mooncake/core/config/internal/doctree"
	"github.com/mooncake-go/mooncake/core/config/internal/upstream"
	"github.com/mooncake-go/mooncake/core/config/internal/value"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

func isKind(name string) bool { return slices.Contains(plugin.Kinds(), name) }

// plugin reads what lies under plugins.<kind>: all entries, one, or one of its settings.
func (r *fileReader) plugin(path []string, n doctree.Node) {
	key := strings.Join(path, ".")
	if len(path) >= 3 {
		if err := (plugin.ID{Kind: path[1], Name: path[2]}).Validate(); err != nil {
			r.problem(r.at(n), key, nil, err.Error(), "")
			return
		}
		r.pluginEntry(path[:3], r.at(n))
	}
	limits := len(path) >= 4 && path[3] == "limits"
	switch {
	case len(path) == 4 && path[3] != "config" && !limits, len(path) == 5 && limits:
		r.pluginSetting(path, n)
	case len(path) > 4 && path[3] != "config":
		r.unknown(key, n)
	case n.Kind == doctree.Null && len(path) <= 4:
	case len(path) >= 4 && !limits:
		r.pluginConfig(path, n)
	case n.Kind != doctree.Map:
		r.problem(r.at(n), key, nil, "must be a mapping of keys to values, not "+n.Kind.String(), "")
	default:
		for _, child := range n.Fields {
			r.plugin(append(path[:len(path):len(path)], strings.Split(child.Key, ".")...), child.Value)
		}
	}
}

func (r *fileReader) pluginSetting(path []string, n doctree.Node) {
	for _, f := range pluginFields(strings.Join(path[:3], ".")) {
		if f.key == strings.Join(path, ".") {
			r.byKey[f.key] = f
			r.leaf(f, n)
			return
		}
	}
	r.unknown(strings.Join(path, "."), n)
}

// pluginConfig takes a plugin's own settings as they are. Keys in it keep their dots.
func (r *fileReader) pluginConfig(path []string, n doctree.Node) {
	if n.Kind != doctree.Map {
		if len(path) == 4 {
			r.problem(r.at(n), strings.Join(path, "."), nil, "must be a mapping of keys to values, not "+n.Kind.String(), "")
			return
		}
		r.layer.setPath(path, n.Any(), r.at(n))
		return
	}
	if len(n.Fields) == 0 {
		r.layer.setPath(path, map[string]any{}, r.at(n))
	}
	for _, child := range n.Fields {
		r.pluginConfig(append(path[:len(path):len(path)], child.Key), child.Value)
	}
}

// theirs reads a key of upstream, nested keys joined with dots.
func (r *fileReader) theirs(path []string, n doctree.Node) {
	key := strings.Join(path, ".")
	names := r.candidates(key)
	switch {
	case len(names) > 1:
		r.problem(r.at(n), key, nil, "means one thing to mooncake_master and another to mooncake_client", "write "+names[0].Key+" or "+names[1].Key+" instead")
	case len(names) == 1 && n.Kind == doctree.Scalar:
		o := r.at(n)
		o.Name, o.Upstream = key, true
		r.judge(names[0], n.Text, o)
	case len(names) == 1 && n.Kind == doctree.Null && names[0].Type == upstream.String:
	case len(names) == 1 && n.Kind == doctree.Null:
		r.problem(r.at(n), key, nil, "has no value", "give it one, or remove the key to leave it at its default")
	case len(names) == 1:
		r.problem(r.at(n), key, nil, "must be a single value, not "+n.Kind.String(), "")
	case n.Kind == doctree.Map && len(n.Fields) > 0 && len(path) < doctree.MaxDepth:
		for _, child := range n.Fields {
			r.theirs(append(path[:len(path):len(path)], strings.Split(child.Key, ".")...), child.Value)
		}
	default:
		r.unknown(key, n)
	}
}

// candidates are the meanings of a flat key: at most one in a role, and where there is no
// role one for each program that gives it a different meaning.
func (r *fileReader) candidates(key string) []upstream.Name {
	if r.Role != RoleAll {
		if n, ok := upstream.Find(r.upstream, key); ok {
			return []upstream.Name{n}
		}
		return nil
	}
	var out []upstream.Name
	for _, role := range []Role{RoleMaster, RoleStore} {
		if n, ok := upstream.Find(role.upstreamKeys(), key); ok && (len(out) == 0 || out[0].Key != n.Key) {
			out = append(out, n)
		}
	}
	return out
}

func (r *fileReader) unknown(key string, n doctree.Node) {
	if r.full() {
		return
	}
	hint := ""
	if near := r.nearestKey(key); near != "" {
		hint = "did you mean " + near + "?"
	}
	if other := r.foreign(key); other != "" {
		hint = other
	}
	r.problem(r.at(n), key, nil, "unknown key", hint)
}

// nearestKey looks among our keys, their last parts, and upstream's.
func (r *fileReader) nearestKey(key string) string {
	var keys []string
	shown := map[string]string{}
	add := func(spelled, show string) {
		if _, ok := shown[spelled]; !ok {
			keys, shown[spelled] = append(keys, spelled), show
		}
	}
	for _, f := range r.fields {
		add(f.key, f.key)
		add(f.section, f.section)
	}
	for _, kind := range plugin.Kinds() {
		add("plugins."+kind, "plugins."+kind)
	}
	for _, f := range r.fields {
		if !strings.Contains(key, ".") {
			add(f.name, f.key)
		}
	}
	for _, name := range upstream.Names(r.upstream) {
		add(name, name)
	}
	if path := strings.Split(key, "."); len(path) >= 4 && len(path) <= 5 && path[0] == "plugins" {
		prefix := strings.Join(path[:3], ".")
		for _, name := range []string{prefix + ".limits", prefix + ".config"} {
			add(name, name)
		}
		for _, f := range pluginFields(prefix) {
			add(f.key, f.key)
		}
	}
	return shown[value.Nearest(key, keys)]
}

// foreign explains a key that is another program's.
func (r *fileReader) foreign(key string) string {
	for _, role := range []Role{RoleMaster, RoleStore} {
		if n, ok := upstream.Find(role.upstreamKeys(), key); ok {
			if n.Key == "" {
				return "it is a key of " + role.program()
			}
			return "it is a key of " + role.program() + "; write " + n.Key + " where that is meant"
		}
	}
	return ""
}
