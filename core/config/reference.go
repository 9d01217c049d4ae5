package config

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strings"

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
	// Upstream upstream's names, of any kind, that set it.
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

// UpstreamDoc describes one name of upstream.
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

// UpstreamReference lists every name of upstream that is known.
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

const markdownIntro = `# Configuration

This page is generated from the program; do not edit it.

Every setting has one key. It can be given, in rising order of precedence, by

1. the built-in default, or the default of a plugin,
2. a file, YAML or JSON: ` + "`--config FILE`" + `, ` + "`MOONCAKE_CONFIG`" + `, or upstream's ` + "`--config_path`" + ` and ` + "`MOONCAKE_CONFIG_PATH`" + `,
3. an environment variable, ` + "`MOONCAKE_<SECTION>_<KEY>`" + `; an empty variable counts as unset,
4. a flag. A flag that is given wins even where it repeats the default. ` + "`--set key=value`" + ` gives any key.

` + "`mooncake config show --origin`" + ` prints what is in effect and where each value came from, ` + "`mooncake config check FILE`" + `
checks a file. An unknown key, a malformed value and a value out of bounds are errors that name the place, the value and
what is allowed, and end the process with exit code 2.

- A **duration** is a whole number with ms, s, m or h (any case, blanks allowed), or Go's form such as 1m30s. A bare number is allowed
  where the table says in what it counts.
- A **size** is a number of bytes, or a number with B, K, M, G, T, KB, MB, GB, TB, KiB, MiB, GiB or TiB in any case; decimals are allowed.
  All are multiples of 1024: 4GB and 4GiB are the same, as in upstream.
- A **port** is 0 to 65535; 0 means any free port.
- A **list** is a list in a file, and separated by commas elsewhere.

`

const markdownUpstream = `## Names of upstream

Flags, file keys and environment variables of upstream (kvcache-ai/Mooncake) are accepted and set the same keys.
Flags may be written ` + "`-f v`, `-f=v`, `--f v`, `--f=v`, `--bool`, `--nobool`" + `, with dashes or underscores. A file may be flat, as
upstream has it, in sections, or both.

- *supported*: sets the key.
- *no effect yet*: accepted, with a warning that names the missing capability. No warning where the value is the default.
- *refused*: an error unless the value is the default, because running without it would break a promise of durability,
  availability or isolation.
- *read by other programs*: belongs to an inference engine or a library that shares the environment.

Two differences are on purpose: a flag that is given always wins over the file (upstream ignores one that
is given its default), and an environment variable wins over the file that ` + "`MOONCAKE_CONFIG_PATH`" + ` names.

`

// WriteMarkdown writes the reference of all settings, docs/configuration.md.
func WriteMarkdown(w io.Writer) error {
	b := bufio.NewWriter(w)
	fmt.Fprint(b, markdownIntro, "## Settings\n\n")
	section := ""
	for _, d := range Reference() {
		if s, _, _ := strings.Cut(d.Key, "."); s != section {
			section = s
			fmt.Fprintf(b, "\n### %s\n\n| key | type | default | meaning | other names |\n|---|---|---|---|---|\n", s)
		}
		fmt.Fprintf(b, "| `%s` | %s | %s | %s | %s |\n", d.Key, d.Type, code(d.Default), d.meaning(), d.names())
	}
	fmt.Fprint(b, "\n", markdownUpstream)
	for _, t := range UpstreamReference() {
		fmt.Fprintf(b, "### %s\n\n| name | type | default | state | key or capability |\n|---|---|---|---|---|\n", t.Title)
		for _, n := range t.Names {
			fmt.Fprintf(b, "| `%s`%s | %s | %s | %s | %s |\n", n.Name, deprecated(n.Deprecated), n.Type, code(n.Default), n.State, keyOrFeature(n))
		}
		fmt.Fprint(b, "\n")
	}
	return b.Flush()
}

func (d FieldDoc) meaning() string {
	s := d.Doc
	if d.Allowed != "" {
		s += " (" + d.Allowed + ")"
	}
	if d.Soon != "" {
		s += ". No effect yet: " + d.Soon
	}
	return s
}

func (d FieldDoc) names() string {
	var out []string
	for _, group := range [][]string{d.Flags, {d.Env}, d.Upstream} {
		for _, name := range group {
			if name != "" {
				out = append(out, code(name))
			}
		}
	}
	return strings.Join(out, " ")
}

func keyOrFeature(n UpstreamDoc) string {
	switch {
	case n.Key == "":
		return n.Feature
	case n.Feature != "":
		return code(n.Key) + ": " + n.Feature
	default:
		return code(n.Key)
	}
}

func deprecated(is bool) string {
	if is {
		return " (deprecated)"
	}
	return ""
}

func code(s string) string {
	if s == "" {
		return ""
	}
	return "`" + s + "`"
}
