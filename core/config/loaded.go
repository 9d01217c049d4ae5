package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/go-viper/mapstructure/v2"
	"github.com/knadh/koanf/v2"
)

// Loaded is the result of Load. It does not change and is safe for concurrent use.
type Loaded struct {
	// Config is the effective configuration.
	Config Config
	// File is the configuration file that was read, empty where there was none.
	File string
	// Warnings are to be shown once, before anything else is done.
	Warnings []Warning

	origins map[string]Origin
	values  map[string]any // by key
	order   []string
	tree    map[string]any
}

// Origin returns where the value of a key came from; ok is false for a key that has no
// value. Besides the keys of Entries it knows the whole of a list or map of a plugin's
// own settings.
func (l *Loaded) Origin(key string) (o Origin, ok bool) {
	o, ok = l.origins[key]
	return o, ok
}

// Entry is one effective setting.
type Entry struct {
	Key    string
	Value  string // as the file takes it, redacted
	Origin Origin
}

// Entries lists every effective setting in the order of the reference, plugins last.
func (l *Loaded) Entries() []Entry {
	out := make([]Entry, len(l.order))
	for i, key := range l.order {
		out[i] = Entry{Key: key, Value: Redact(key, format(l.values[key])), Origin: l.origins[key]}
	}
	return out
}

// finish merges the layers into a Config and checks what concerns more than one setting.
func (l *loader) finish() (*Loaded, error) {
	if len(l.problems) > 0 {
		return nil, l.problems
	}
	l.followProtocol()
	out := &Loaded{Warnings: l.warnings, origins: l.layers.origins, values: map[string]any{}}
	err := l.layers.k.UnmarshalWithConf("", &out.Config, koanf.UnmarshalConf{DecoderConfig: &mapstructure.DecoderConfig{ErrorUnused: true}})
	if err != nil {
		return nil, Problems{{Reason: fmt.Sprintf("the settings do not fit their types: %v", err), Hint: "this is an error of the program"}}
	}
	l.check(out.Config)
	if len(l.problems) > 0 {
		return nil, l.problems
	}
	out.index(l.fields, l.layers.k.Raw())
	l.warnSoon(out)
	if len(l.problems) > 0 {
		return nil, l.problems
	}
	out.Warnings = l.warnings
	for _, o := range out.origins {
		if o.Layer == LayerFile {
			out.File = o.File
		}
	}
	return out, nil
}

// forceTCP is upstream's variable for TCP and nothing else.
const forceTCP = "MC_FORCE_TCP"

// followProtocol derives the transports from the preferred one where only that was given.
// Shared memory comes first, which serves peers on this host and no others; TCP stays as
// the last resort.
func (l *loader) followProtocol() {
	if l.layers.origins["store.transports"].Layer > LayerPlugin {
		return
	}
	var transports []string
	add := func(name string) {
		if !slices.Contains(transports, name) {
			transports = append(transports, name)
		}
	}
	if l.layers.k.String("store.shared_memory") != "off" && l.layers.origins["store.protocol"].Name != forceTCP {
		add("shm")
	}
	add(l.layers.k.String("store.protocol"))
	add("tcp")
	l.layer.set("store.transports", transports, l.layers.origins["store.protocol"])
	l.commit()
}

// warnSoon names the settings that were given and have no effect yet, and refuses those
// that promise something.
func (l *loader) warnSoon(out *Loaded) {
	for _, f := range l.fields {
		o := out.origins[f.key]
		if f.soon == "" || o.Layer <= LayerPlugin {
			continue
		}
		usual, _, err := f.parse(f.def, f.unit)
		switch given := format(out.values[f.key]); {
		case err != nil || format(usual) == given:
		case f.refuse:
			l.refuse(o, f.key, given, f.soon)
		default:
			l.warn(o, f.key, "has no effect; not supported yet: "+f.soon)
		}
	}
}

// index orders the settings that are in effect and drops the origins of those that a
// higher layer replaced as a whole.
func (l *Loaded) index(fields []field, tree map[string]any) {
	l.tree = tree
	flatten(tree, "", l.values)
	ours := map[string]bool{}
	for _, f := range fields {
		ours[f.key] = true
		l.order = append(l.order, f.key)
	}
	for _, key := range slices.Sorted(maps.Keys(l.values)) {
		if !ours[key] {
			l.order = append(l.order, key)
		}
	}
	origins := map[string]Origin{}
	for key := range l.values {
		origins[key] = l.origins[key]
	}
	l.origins = origins
}

func flatten(v any, key string, out map[string]any) {
	m, ok := v.(map[string]any)
	if !ok || len(m) == 0 && strings.Contains(key, ".config") {
		out[key] = v
		return
	}
	for name, child := range m {
		flatten(child, joinKey(key, name), out)
	}
}
