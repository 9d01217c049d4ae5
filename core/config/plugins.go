package config

import "github.com/mooncake-go/mooncake/sdk/plugin"

// Plugins says where plugins are found and how each is run. Which ones are used is said
// by master.evictor, master.allocator and store.transports.
type Plugins struct {
	Dirs []string `koanf:"dirs" default:"" doc:"folders searched for plugin binaries, before the standard ones"`
	Lock string   `koanf:"lock" default:"" doc:"lock file with the versions and checksums of plugin binaries, an absolute path; mooncake plugins lock writes it"`
	// Trust is resolved by core/pluginhost.
	Trust string `koanf:"trust" default:"auto" enum:"auto|locked|tofu|off" doc:"which plugin binaries may run: those in the lock file with this checksum; tofu, those and what runs for the first time, which enters it; off, all, with a warning each time; auto is locked where plugins.lock or plugins.trusted_keys is set or security.mode is not off, else off"`
	// TrustedKeys are checked by core/pluginhost/trust.
	TrustedKeys []string `koanf:"trusted_keys" default:"" doc:"public keys of minisign, or absolute paths of files with one: one of them must have signed the lock file, else no plugin binary runs; the signature is the lock file's name with .minisig, and mooncake plugins sign makes it"`
	// Sandbox is resolved by core/pluginhost.
	Sandbox string `koanf:"sandbox" default:"auto" enum:"auto|off|require" doc:"what a plugin's process is denied beyond the rights of this process: new privileges, capabilities, files, system calls; require, a plugin for which this machine cannot enforce all is refused; auto is what the machine can enforce where security.mode is not off, else off"`

	// By kind and name.
	Transport map[string]Plugin `koanf:"transport"`
	Evict     map[string]Plugin `koanf:"evict"`
	Alloc     map[string]Plugin `koanf:"alloc"`
	Tier      map[string]Plugin `koanf:"tier"`
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
	// Env, Limits, Read and Write are of a plugin that runs as a process of its own.
	Env    []string     `koanf:"env" default:"" doc:"variables of this process's environment that the plugin's process gets too; without, it gets PATH, HOME, TMPDIR, TZ, LANG, LC_ALL and Go's own"`
	Limits PluginLimits `koanf:"limits"`
	Read   []string     `koanf:"read" default:"" doc:"absolute paths of folders and files that the sandbox leaves to the plugin's process to read, besides system folders and what its own settings name"`
	Write  []string     `koanf:"write" default:"" doc:"absolute paths of folders and files that the sandbox leaves to the plugin's process to read and write"`
	// Config holds the plugin's own settings over its defaults, in JSON's general types
	// with int64, uint64 and float64 for numbers. core/pluginhost decodes it strictly.
	Config map[string]any `koanf:"config"`
}

// PluginLimits bound the process of a plugin; 0 bounds nothing.
type PluginLimits struct {
	Memory    Size    `koanf:"memory" default:"0" range:"0..16TiB" doc:"memory of the plugin's process, without what it shares with this one; 0 for no limit"`
	Files     int     `koanf:"files" default:"0" range:"0..1048576" doc:"descriptors that the plugin's process may have open; 0 for no limit of its own"`
	Processes int     `koanf:"processes" default:"0" range:"0..1000000" doc:"processes and threads of the plugin; 0 for no limit"`
	CPU       float64 `koanf:"cpu" default:"0" range:"0..4096" doc:"CPUs whose time the plugin may use, such as 1.5; 0 for no limit; needs a control group"`
	Required  bool    `koanf:"required" default:"false" doc:"whether a plugin whose limits cannot be enforced on this machine is refused; else it runs, with a warning"`
}

// Get returns the entry of a plugin, the defaults where it has none.
func (p Plugins) Get(id plugin.ID) Plugin {
	if entry, ok := p.OfKind(id.Kind)[id.Name]; ok {
		return entry
	}
	return Plugin{Mode: ModeAuto}
}

// OfKind returns the entries of a kind by name, nil for an unknown kind.
func (p Plugins) OfKind(kind string) map[string]Plugin {
	switch kind {
	case plugin.KindTransport:
		return p.Transport
	case plugin.KindEvict:
		return p.Evict
	case plugin.KindAlloc:
		return p.Alloc
	case plugin.KindTier:
		return p.Tier
	}
	return nil
}

// PluginKey returns the key of a plugin's own setting, for Loaded.Origin.
func PluginKey(id plugin.ID, setting string) string {
	return "plugins." + id.Kind + "." + id.Name + ".config." + setting
}
