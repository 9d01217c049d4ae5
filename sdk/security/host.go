package security

import "github.com/mooncake-go/mooncake/sdk/plugin"

// Host is what a plugin.Host also implements where the process that uses the plugin is protected.
type Host interface {
	// Security returns the settings of the process, without Log, Report and Clock. The files may be
	// read by the plugin, also where it runs in a process of its own.
	Security() Settings
}

// OfHost returns the settings that a host gives to its plugin; those of ModeOff where it gives none.
func OfHost(h plugin.Host) Settings {
	if s, ok := h.(Host); ok {
		return s.Security()
	}
	return Settings{}
}

// OpenFor opens the Keeper of a plugin: with the settings of its host, its log, and its health.
func OpenFor(h plugin.Host) (*Keeper, error) {
	s := OfHost(h)
	s.Log = h.Logger()
	s.Report = func(trouble string) {
		health := plugin.Health{State: plugin.StateOK}
		if trouble != "" {
			health = plugin.Health{State: plugin.StateDegraded, Reason: trouble}
		}
		h.Report(health)
	}
	return Open(s)
}
