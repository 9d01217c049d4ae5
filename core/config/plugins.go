package config

import "github.com/mooncake-go/mooncake/sdk/plugin"

// Plugins says where plugins are found and how each is run. Which ones are used is said
// by master.evictor, master.allocator and store.transports.
type Plugins struct {
	Dirs []string `koanf:"dirs" default:"" doc:"folders searched for plugin binaries, before the standard ones"`
	Lock string   `koanf:"lock" default:"" soon:"the lock file of plugins; refused until it is checked" doc:"lock file with the versions and checksums of plugin binaries"`

	// By kind and name.
	Transport map[string]Plugin `koanf:"transport"`
	Evict     map[string]Plugin `koanf:"evict"`
	Alloc     map[string]Plugin `koanf:"alloc"`
}

// The modes of a plugin.
const (
	ModeAuto       = "auto"       // in process where it is linked in, else as a subprocess
	ModeInProcess  = "inprocess"  // linked in, or an error
	ModeSubprocess = "subprocess" // the binary that is found, or an error
)

// Plugin is the entry of one plugin, plugins.<kind>.<name>.
type Plugin struct {
	Mode     string `koanf:"mode" default:"auto" enum:"auto|inprocess|subprocess" doc:"where the plugin runs"`
	Required bool   `koanf:"required" default:"false" doc:"of a transport: whether the node refuses to start where it cannot; else the node goes on with the next of store.transports, with a warning"`
	// Config holds the plugin's own settings over its defaults, in JSON's general types
	// with int64, uint64 and float64 for numbers. core/plugins decodes it strictly.
	Config map[string]any `koanf:"config"`
}

// Get returns the entry of a plugin, the defaults where it has none.
func (p Plugins) Get(id plugin.ID) Plugin {
	if entry, ok := p.kind(id.Kind)[id.Name]; ok {
		return entry
	}
	return Plugin{Mode: ModeAuto}
}

func (p Plugins) kind(kind string) map[string]Plugin {
	switch kind {
	case plugin.KindTransport:
		return p.Transport
	case plugin.KindEvict:
		return p.Evict
	case plugin.KindAlloc:
		return p.Alloc
	}
	return nil
}

// PluginKey returns the key of a plugin's own setting, for Loaded.Origin.
func PluginKey(id plugin.ID, setting string) string {
	return "plugins." + id.Kind + "." + id.Name + ".config." + setting
}
