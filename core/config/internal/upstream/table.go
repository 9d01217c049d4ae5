// Package upstream has the names of upstream's settings (kvcache-ai/Mooncake): every flag of
// mooncake_master and mooncake_client, the keys of its configuration files, and the variables that it
// reads from the environment.
//
// The names are data, in names.tsv. Each either maps onto a key of ours, or carries the capability
// that it belongs to, so that a warning can say what has no effect yet. The types, defaults and bounds
// are upstream's.
package upstream

import (
	_ "embed"
	"slices"
	"strings"
	"sync"

	"github.com/mooncake-go/mooncake/core/config/internal/value"
)

//go:embed names.tsv
var names string

var tables = sync.OnceValue(func() map[string][]Name { return parse(names) })

// table returns a section of names.tsv. The caller must not change it.
func table(section string) []Name { return slices.Clip(tables()[section]) }

// MasterFlags returns the flags of mooncake_master. Its configuration file has the same names as
// keys, except for MasterFileNames.
func MasterFlags() []Name { return table("master") }

// MasterFileNames maps the file keys of mooncake_master that differ from the flag to the flag.
func MasterFileNames() map[string]string {
	return map[string]string{"client_live_ttl_sec": "client_ttl"}
}

// ClientFlags returns the flags of mooncake_client.
func ClientFlags() []Name { return table("client") }

// ServiceFlags returns the flags of the store service.
func ServiceFlags() []Name { return table("service flags") }

// ServiceKeys returns the keys of the JSON file that the store service and the connectors of the
// inference engines read (MOONCAKE_CONFIG_PATH).
func ServiceKeys() []Name { return table("service keys") }

// ProcessFlags returns the flags that every upstream binary has from glog, gflags and its memory
// allocator, except for those that only print help.
func ProcessFlags() []Name { return table("process") }

// Environment returns the variables that upstream, its Python wheel and the connectors of the
// inference engines read. If two set the same key, the later one in the table counts.
func Environment() []Name { return table("environment") }

// parse reads names.tsv; the tests check that it is complete.
func parse(text string) map[string][]Name {
	out, features, section := map[string][]Name{}, map[string]string{}, ""
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		switch {
		case line == "" || line[0] == '#':
		case line[0] == '[':
			section = strings.Trim(line, "[]")
		case section == "features":
			id, text, _ := strings.Cut(line, "\t")
			features[id] = text
		default:
			out[section] = append(out[section], parseName(line, features))
		}
	}
	return out
}

func parseName(line string, features map[string]string) Name {
	col := append(strings.Split(line, "\t"), "", "", "", "")
	n := Name{Name: col[0], Type: Type(col[1]), Default: col[2], Key: col[3]}
	for attr := range strings.FieldsSeq(col[4]) {
		key, text, _ := strings.Cut(attr, "=")
		switch key {
		case "unit":
			n.Unit = map[string]value.Unit{"ms": value.Millisecond, "s": value.Second}[text]
		case "range":
			n.Range = text
		case "enum":
			n.Enum = text
		case "values":
			n.Values = map[string]string{}
			for pair := range strings.SplitSeq(text, ",") {
				theirs, ours, _ := strings.Cut(pair, ":")
				n.Values[theirs] = ours
			}
		case "switch":
			on, off, _ := strings.Cut(text, "|")
			n.Values = switched(on, off)
		case "negative":
			n.Negative = text
		case "suffix":
			n.Suffix = text
		case "zero-unset":
			n.ZeroUnset = true
		case "fallback":
			n.Fallback = true
		case "feature":
			n.Feature = features[text]
		case "covered":
			n.Covered = true
		case "refuse":
			n.Refuse = true
		case "refuse-only":
			n.RefuseOnly = text
		case "deprecated":
			n.Deprecated = true
		case "readers":
			for r := range strings.SplitSeq(text, "|") {
				n.Readers |= map[string]Reader{"master": Master, "node": Node, "metadata": Metadata, "elsewhere": Elsewhere}[r]
			}
		}
	}
	return n
}

// Find returns the entry for name: the exact one, else the longest with a trailing * that covers it.
func Find(table []Name, name string) (Name, bool) {
	best, found := Name{}, false
	for _, n := range table {
		if n.Name == name {
			return n, true
		}
		prefix, wild := strings.CutSuffix(n.Name, "*")
		if wild && strings.HasPrefix(name, prefix) && len(n.Name) > len(best.Name) {
			best, found = n, true
		}
	}
	return best, found
}

// Names returns the spellings of a table, without those that end in *.
func Names(table []Name) []string {
	var out []string
	for _, n := range table {
		if !strings.HasSuffix(n.Name, "*") {
			out = append(out, n.Name)
		}
	}
	return out
}

// Distinct returns the entries of the tables, the first of each name, in order.
func Distinct(tables ...[]Name) []Name {
	var out []Name
	seen := map[string]bool{}
	for _, n := range slices.Concat(tables...) {
		if !seen[n.Name] {
			seen[n.Name] = true
			out = append(out, n)
		}
	}
	return out
}
