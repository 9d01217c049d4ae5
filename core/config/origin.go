package config

import "strconv"

// Layer is where a value can come from, in rising order of precedence.
type Layer uint8

// The layers.
const (
	LayerDefault Layer = iota
	LayerPlugin
	LayerFile
	LayerEnv
	LayerFlag
)

// Origin is where a value came from.
type Origin struct {
	Layer Layer
	// Name is the plugin (evict/lru), the environment variable, or the flag with its two
	// dashes. In LayerDefault it is empty or says whose default it is; in LayerFile it is
	// the reference implementation's key where that was used.
	Name string
	// File and Line are set in LayerFile; Line 0 means the file as a whole.
	File string
	Line int
	// Upstream says that Name is one of the reference implementation's own.
	Upstream bool
}

// String prints the origin as `config show --origin` and the error messages do:
// "default", "plugin default evict/lru", "file conf.yaml:12", "env MOONCAKE_LOG_LEVEL",
// "flag --default_kv_lease_ttl (upstream name)".
func (o Origin) String() string {
	var s string
	switch o.Layer {
	case LayerPlugin:
		s = "plugin default " + o.Name
	case LayerFile:
		s = "file " + o.File
		if o.Line > 0 {
			s += ":" + strconv.Itoa(o.Line)
		}
		if o.Name != "" {
			s += " " + o.Name
		}
	case LayerEnv:
		s = "env " + o.Name
	case LayerFlag:
		s = "flag " + o.Name
	default:
		s = "default"
		if o.Name != "" {
			s += " of " + o.Name
		}
	}
	if o.Upstream {
		s += " (upstream name)"
	}
	return s
}
