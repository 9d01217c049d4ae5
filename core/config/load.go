package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/mooncake-go/mooncake/core/config/internal/upstream"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

// Options says what to load from. The zero value loads the defaults.
type Options struct {
	// Role of the process; empty means RoleAll.
	Role Role
	// Flags is a parsed set that RegisterFlags was called on with the same role, nil for
	// none. Flags that RegisterFlags did not add are ignored.
	Flags *pflag.FlagSet
	// Environ is the environment in the form of os.Environ.
	Environ []string
	// File is the configuration file. Empty means the one that --config or --config_path
	// names, else the variable MOONCAKE_CONFIG, else for a store or client
	// MOONCAKE_CONFIG_PATH, else none.
	File string
	// PluginDefaults holds the DefaultConfig of every plugin factory that is linked in.
	PluginDefaults map[plugin.ID]any
	// UpstreamDefaults makes the defaults of upstream's flags count
	// where ours differ, for a process that was started under its name.
	UpstreamDefaults bool
}

// Load reads all layers. The error is of type Problems and holds everything that was
// found wrong; Loaded is then nil.
func Load(o Options) (*Loaded, error) {
	if o.Role == "" {
		o.Role = RoleAll
	}
	l := newLoader(o)
	l.defaults()
	l.pluginDefaults()
	if file, origin := l.chooseFile(); file != "" {
		l.file(file, origin)
	}
	l.environment()
	l.flags()
	return l.finish()
}

// Check reads one file over the defaults, without environment and flags.
func Check(role Role, file string, pluginDefaults map[plugin.ID]any) (*Loaded, error) {
	return Load(Options{Role: role, File: file, PluginDefaults: pluginDefaults})
}

// loader collects one layer after the other. It is used by one goroutine.
type loader struct {
	Options
	fields  []field
	byKey   map[string]field
	environ map[string]string

	layers   *layers
	layer    *layer // the one being filled
	base     *layer // below it: defaults of plugins that nothing has named so far
	problems Problems
	warnings []Warning
	warned   map[string]bool
	plugins  map[string]bool // plugins.<kind>.<name> with an entry
}

func newLoader(o Options) *loader {
	l := &loader{
		Options: o, fields: schema(), byKey: map[string]field{}, environ: map[string]string{}, layers: newLayers(), layer: newLayer(), base: newLayer(),
		warned: map[string]bool{}, plugins: map[string]bool{},
	}
	for _, f := range l.fields {
		l.byKey[f.key] = f
	}
	for _, kv := range o.Environ {
		if name, text, ok := strings.Cut(kv, "="); ok && text != "" {
			l.environ[name] = text
		}
	}
	return l
}

// commit puts the layer over those before it and starts the next.
func (l *loader) commit() {
	l.layer.settle()
	l.layers.push(l.base)
	l.layers.push(l.layer)
	l.base, l.layer = newLayer(), newLayer()
}

func (l *loader) defaults() {
	for _, f := range l.fields {
		f.def = f.defaultFor(l.Role)
		v, _, err := f.parse(f.def, f.unit)
		if err != nil {
			l.problem(Origin{}, f.key, &f.def, err.Error(), "")
			continue
		}
		l.layer.set(f.key, v, Origin{Layer: LayerDefault})
	}
	if l.UpstreamDefaults {
		l.upstreamDefaults()
	}
	l.commit()
}

func (l *loader) upstreamDefaults() {
	for _, n := range l.Role.usual() {
		f, ours := l.byKey[n.Key]
		if !ours || n.Default == "" || n.Values != nil || n.ZeroUnset || n.Deprecated || f.section == "log" {
			continue
		}
		if v, _, err := f.parse(n.Default, n.Unit); err == nil && format(v) != format(l.layer.get(f.key)) {
			l.layer.set(f.key, v, Origin{Layer: LayerDefault, Name: l.Role.program()})
		}
	}
}

func (l *loader) pluginDefaults() {
	ids := slices.SortedFunc(maps.Keys(l.PluginDefaults), func(a, b plugin.ID) int { return strings.Compare(a.String(), b.String()) })
	for _, id := range ids {
		o := Origin{Layer: LayerPlugin, Name: id.String()}
		settings, err := asMap(l.PluginDefaults[id])
		if err != nil {
			l.problem(o, "", nil, fmt.Sprintf("the plugin's defaults cannot be shown: %v", err), "this is an error of the plugin")
			continue
		}
		prefix := []string{"plugins", id.Kind, id.Name}
		l.pluginEntry(prefix, o)
		l.layer.setTree(append(prefix, "config"), settings, func([]string) Origin { return o })
	}
	l.commit()
}

// maxPlugins bounds the entries of plugins.
const maxPlugins = 100

// pluginEntry gives the entry of a plugin its defaults, where it has none yet.
func (l *loader) pluginEntry(path []string, o Origin) {
	id := strings.Join(path, ".")
	if l.plugins[id] {
		return
	}
	if len(l.plugins) >= maxPlugins {
		l.problem(o, id, nil, fmt.Sprintf("is one plugin more than a configuration may have (%d)", maxPlugins), "")
		return
	}
	l.plugins[id] = true
	for _, f := range pluginFields(id) {
		if !l.layers.has(f.key) {
			v, _, _ := f.parse(f.def, f.unit) // a test checks that the defaults parse
			l.base.set(f.key, v, Origin{Layer: LayerDefault})
		}
	}
}

// assign parses text for key and puts it into the layer. n is the upstream name it came
// under, nil for one of ours.
func (l *loader) assign(key, text string, o Origin, n *upstream.Name) {
	f, ok := l.byKey[key]
	if !ok {
		l.assignPlugin(key, text, o, n)
		return
	}
	unit := f.unit
	if n != nil {
		unit = n.Unit
	}
	v, note, err := f.parse(text, unit)
	if err != nil {
		l.problem(o, l.subject(o, key), &text, err.Error(), "")
		return
	}
	if note != "" {
		l.warn(o, key, note)
	}
	l.put(key, v, o, n != nil && n.Fallback)
}

// put records a value, and refuses a second different one from the same layer. In the
// environment the later one wins.
func (l *loader) put(key string, v any, o Origin, fallback bool) {
	if fallback {
		l.layer.fallback(key, v, o)
		return
	}
	if before, ok := l.layer.origins[key]; ok && o.Layer != LayerEnv && format(l.layer.get(key)) != format(v) {
		l.problem(o, key, nil, fmt.Sprintf("was also given by %s, with another value", before), "keep one of the two")
		return
	}
	l.layer.set(key, v, o)
}

// subject is the key as a message names it: left out where the origin already does.
func (l *loader) subject(o Origin, key string) string {
	if o.Name != "" {
		return ""
	}
	return key
}

// maxProblems bounds what is reported of one configuration.
const maxProblems = 50

func (l *loader) full() bool { return len(l.problems) > maxProblems }

func (l *loader) problem(o Origin, key string, text *string, reason, hint string) {
	if l.full() {
		return
	}
	if len(l.problems) == maxProblems {
		o, key, text, reason, hint = Origin{Layer: o.Layer, File: o.File, Name: o.Name}, "", nil, "there is more that is wrong", "correct these first"
	}
	if text != nil {
		shown := Redact(key+" "+o.Name, *text)
		if len(shown) > 80 {
			shown = shown[:80] + "..."
		}
		text = &shown
	}
	l.problems = append(l.problems, &Problem{Origin: o, Key: key, Value: text, Reason: reason, Hint: hint})
}

// warn adds a warning, once for each place and text.
func (l *loader) warn(o Origin, name, text string) {
	w := Warning{Origin: o, Name: name, Text: text}
	if id := w.String(); !l.warned[id] {
		l.warned[id] = true
		l.warnings = append(l.warnings, w)
	}
}
