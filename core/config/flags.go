package config

import (
	"strings"

	"github.com/spf13/pflag"

	"github.com/mooncake-go/mooncake/core/config/internal/upstream"
)

// The groups of flags, in the order help shows them; see FlagGroup.
const (
	GroupMain     = "main"     // --config and --set
	GroupRole     = "role"     // the settings of the role's own section
	GroupLog      = "log"      // what is logged
	GroupPlugins  = "plugins"  // where plugins are found
	GroupUpstream = "upstream" // upstream's names for any of these
)

const groupAnnotation = "mooncake_config_group"

// RegisterFlags adds the flags of a role: ours and those of upstream's
// program, which are visible where they have an effect and hidden where they are only
// accepted. Names are spelled with underscores; dashes are taken for underscores, which
// goes for every flag of the set. Nothing is checked until Load.
func RegisterFlags(fs *pflag.FlagSet, role Role) {
	fs.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		return pflag.NormalizedName(strings.ReplaceAll(name, "-", "_"))
	})
	add(fs, GroupMain, "config", "file", "configuration file (.yaml, .yml or .json)", "")
	add(fs, GroupMain, "set", "key=value", "set any key, also one of a plugin: plugins.evict.lru.config.<setting>; repeatable", "")
	if role == RoleService {
		f := fs.VarPF(&flagValue{kind: "key=value", many: true}, defineFlag, "D", "set a key of the store service's JSON file, such as local_hostname; repeatable")
		f.Annotations = map[string][]string{groupAnnotation: {GroupUpstream}}
	}
	if role.node() {
		add(fs, GroupRole, masterFlag, "host:port", MasterUsage, "")
	}
	for _, f := range schema() {
		if name := f.flag(role); name != "" {
			add(fs, f.group(role), name, f.kind, f.usage(), f.defaultFor(role))
		}
	}
	for _, n := range role.upstreamFlags() {
		if fs.Lookup(n.Name) != nil {
			continue
		}
		flag := add(fs, GroupUpstream, n.Name, string(n.Type), upstreamUsage(n), "")
		flag.Hidden = n.Key == "" && !isFileFlag(n.Name)
	}
}

func (f field) group(role Role) string {
	switch f.section {
	case role.section(), "admin", "debug", "net", "memory", "security":
		return GroupRole
	case "log":
		return GroupLog
	default:
		return GroupPlugins
	}
}

// defaultFor is the default in a role: a client contributes no memory.
func (f field) defaultFor(role Role) string {
	if role == RoleClient && f.key == "store.global_segment_size" {
		return "0"
	}
	return f.def
}

func (f field) usage() string {
	s := f.doc
	if b := f.bounds(); b != "" && f.kind != "port" {
		s += " (" + b + ")"
	}
	if f.soon != "" {
		s += " [no effect yet: " + f.soon + "]"
	}
	return s
}

func upstreamUsage(n upstream.Name) string {
	if isFileFlag(n.Name) {
		return "upstream name of --config"
	}
	if n.Key == "" {
		return "no effect yet: " + n.Feature
	}
	return "upstream name of " + n.Key
}

// FlagGroup returns the group of a flag that RegisterFlags added, empty for any other.
func FlagGroup(f *pflag.Flag) string {
	if g := f.Annotations[groupAnnotation]; len(g) == 1 {
		return g[0]
	}
	return ""
}

func add(fs *pflag.FlagSet, group, name, kind, usage, def string) *pflag.Flag {
	f := fs.VarPF(&flagValue{kind: kind, many: kind == "list" || name == "set"}, name, "", usage)
	f.Annotations = map[string][]string{groupAnnotation: {group}}
	f.DefValue = def
	if kind == "bool" {
		f.NoOptDefVal = "true"
	}
	return f
}

// flagValue keeps what was given; Load parses it, so that an error can name its origin.
type flagValue struct {
	kind  string
	many  bool
	texts []string
}

// String implements pflag.Value.
func (v *flagValue) String() string { return strings.Join(v.texts, ",") }

// Type implements pflag.Value. It is what help shows.
func (v *flagValue) Type() string { return v.kind }

// Set implements pflag.Value. Of a single value the last one counts.
func (v *flagValue) Set(text string) error {
	if !v.many {
		v.texts = v.texts[:0]
	}
	v.texts = append(v.texts, text)
	return nil
}

// changed returns the text of one of our flags, and whether it was given.
func changed(fs *pflag.FlagSet, name string) (string, bool) {
	if fs == nil {
		return "", false
	}
	f := fs.Lookup(name)
	if f == nil || !f.Changed {
		return "", false
	}
	v, ours := f.Value.(*flagValue)
	if !ours {
		return "", false
	}
	return v.String(), true
}

// FlagUsages prints the flags that have an effect, grouped, for a help text. Flags that
// RegisterFlags did not add come first.
func FlagUsages(fs *pflag.FlagSet) string {
	var b strings.Builder
	for _, g := range []struct{ group, title string }{
		{"", "Flags"}, {GroupMain, "Configuration"}, {GroupRole, "Settings"}, {GroupLog, "Logging"}, {GroupPlugins, "Plugins"},
		{GroupUpstream, "Upstream's names"},
	} {
		part := pflag.NewFlagSet("", pflag.ContinueOnError)
		part.SortFlags = false
		fs.VisitAll(func(f *pflag.Flag) {
			if FlagGroup(f) == g.group {
				part.AddFlag(f)
			}
		})
		if text := part.FlagUsages(); text != "" {
			b.WriteString(g.title + ":\n" + text + "\n")
		}
	}
	return b.String()
}
