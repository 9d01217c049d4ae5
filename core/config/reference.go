package config

import (
	"slices"

	"github.com/mooncake-go/mooncake/core/config/internal/upstream"
)

// FieldDoc describes one setting.
type FieldDoc struct {
	Key     string
	Type    string
	Default string
	// Allowed are the bounds or the choices, empty where the type says it all.
	Allowed string
	// Env is the environment variable. Flags are the flags of the roles that have one,
	// Upstream the reference implementation's names, of any kind, that set it.
	Env      string
	Flags    []string
	Upstream []string
	Doc      string
	// Soon names the capability of a setting without an effect yet.
	Soon string
}

// Reference describes every setting in the order of Config. The entries of plugins are
// listed once, with <kind> and <name> in the key.
func Reference() []FieldDoc {
	var out []FieldDoc
	names := upstreamTables()
	for _, f := range schema() {
		d := f.describe()
		d.Env = f.env()
		for _, r := range Roles() {
			if name := f.flag(r); name != "" && !slices.Contains(d.Flags, "--"+name) {
				d.Flags = append(d.Flags, "--"+name)
			}
		}
		if f.key == masterKey {
			d.Flags = append(d.Flags, "--"+masterFlag)
		}
		for _, t := range names {
			for _, n := range t.names {
				shown := t.prefix + n.Name
				if n.Key == f.key && !slices.Contains(d.Flags, shown) && !slices.Contains(d.Upstream, shown) && shown != d.Env {
					d.Upstream = append(d.Upstream, shown)
				}
			}
		}
		out = append(out, d)
	}
	for _, f := range pluginFields("plugins.<kind>.<name>") {
		out = append(out, f.describe())
	}
	return append(out, FieldDoc{Key: "plugins.<kind>.<name>.config", Type: "mapping", Doc: "the plugin's own settings; `mooncake plugins list` shows the plugins"})
}

func (f field) describe() FieldDoc {
	kind := f.kind
	if f.unit != 0 {
		kind += ", bare number in " + f.unit.String()
	}
	d := FieldDoc{Key: f.key, Type: kind, Default: f.def, Allowed: f.bounds(), Doc: f.doc, Soon: f.soon}
	if f.kind == "port" {
		d.Allowed = ""
	}
	return d
}

// UpstreamDoc describes one name of the reference implementation.
type UpstreamDoc struct {
	Name, Type, Default string
	// State is supported, no effect yet, refused, or read by other programs.
	State string
	// Key is ours where there is one, Feature the missing capability where there is none
	// or where the key has no effect yet.
	Key, Feature string
	Deprecated   bool
}

// UpstreamTable is one list of names.
type UpstreamTable struct {
	Title string
	Names []UpstreamDoc
}

// UpstreamReference lists every name of the reference implementation that is known.
func UpstreamReference() []UpstreamTable {
	var out []UpstreamTable
	byKey := map[string]field{}
	for _, f := range schema() {
		byKey[f.key] = f
	}
	for _, t := range upstreamTables() {
		table := UpstreamTable{Title: t.title}
		for _, n := range t.names {
			if isFileFlag(n.Name) || n.Name == "MOONCAKE_CONFIG_PATH" {
				table.Names = append(table.Names, UpstreamDoc{Name: t.prefix + n.Name, Type: "string", State: "supported", Key: "(names the file)", Deprecated: n.Deprecated})
				continue
			}
			d := UpstreamDoc{t.prefix + n.Name, string(n.Type), n.Default, n.State(), n.Key, n.Feature, n.Deprecated}
			if f := byKey[n.Key]; f.soon != "" {
				d.State, d.Feature = "no effect yet", f.soon
				if f.refuse {
					d.State = "refused"
				}
			}
			table.Names = append(table.Names, d)
		}
		out = append(out, table)
	}
	return out
}

type titled struct {
	title, prefix string
	names         []upstream.Name
}

func upstreamTables() []titled {
	return []titled{
		{"Flags and file keys of mooncake_master", "--", upstream.MasterFlags()},
		{"Flags and file keys of mooncake_client", "--", upstream.ClientFlags()},
		{"Flags of the store service", "--", upstream.ServiceFlags()},
		{"Keys of the store service's JSON file", "", upstream.ServiceKeys()},
		{"Flags of every upstream process", "--", upstream.ProcessFlags()},
		{"Environment variables", "", upstream.Environment()},
	}
}
