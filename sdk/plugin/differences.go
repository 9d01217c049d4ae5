package plugin

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"
)

// Differences compares the schema in a manifest with the one that a program has of its own settings, and returns a
// sentence for each difference. A keyword that the program does not use says nothing, unless both schemas were made
// by SchemaOf: a program may enforce a bound that its schema does not have. Without a schema of the program there is
// nothing to compare.
func Differences(manifest, program json.RawMessage) []string {
	var m, p schemaTree
	if len(program) == 0 {
		return nil
	}
	if err := json.Unmarshal(program, &p); err != nil {
		return []string{fmt.Sprintf("the program's schema of its settings is not a JSON object: %v", err)}
	}
	if len(manifest) > 0 && json.Unmarshal(manifest, &m) != nil {
		return []string{"the config_schema of the manifest is not a JSON object"}
	}
	d := differ{strict: p.text("$comment") == generated && m.text("$comment") == generated}
	d.object(m, p, "")
	return d.found
}

type differ struct {
	strict bool
	found  []string
}

func (d *differ) add(format string, args ...any) {
	d.found = append(d.found, fmt.Sprintf(format, args...))
}

func (d *differ) object(m, p schemaTree, path string) {
	if (d.strict || p["required"] != nil) && !reflect.DeepEqual(m["required"], p["required"]) {
		d.add("the manifest requires %s, and the program %s", list(m["required"]), list(p["required"]))
	}
	ours, _ := p.under("properties")
	theirs, _ := m.under("properties")
	names := slices.Collect(maps.Keys(ours))
	for name := range theirs {
		if ours[name] == nil {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		at := strings.TrimPrefix(path+"."+name, ".")
		ms, inManifest := theirs.under(name)
		ps, inProgram := ours.under(name)
		switch {
		case !inManifest:
			d.add("only the program has the setting %s", at)
		case !inProgram:
			d.add("only the manifest has the setting %s", at)
		default:
			d.setting(ms, ps, at)
		}
	}
}

// said are the keywords that are compared, as people say them. Those marked true need not be in a manifest that was
// written by hand.
var said = []struct {
	key, words string
	optional   bool
}{
	{"type", "the type", true},
	{"format", "the format", true},
	{"default", "the default", true},
	{"minimum", "the minimum", false},
	{"maximum", "the maximum", false},
	{"formatMinimum", "the minimum", false},
	{"formatMaximum", "the maximum", false},
	{"minLength", "the shortest length", false},
	{"maxLength", "the longest length", false},
	{"minItems", "the least number of items", false},
	{"maxItems", "the largest number of items", false},
	{"enum", "the list of values", false},
	{"items", "the form of the items", true},
	{"description", "the description", true},
}

func (d *differ) setting(m, p schemaTree, path string) {
	for _, k := range said {
		a, b := m[k.key], p[k.key]
		switch {
		case reflect.DeepEqual(a, b), sameDuration(p, a, b):
		case !d.strict && (b == nil || a == nil && k.optional):
		default:
			d.add("%s of %s is %s in the manifest, and %s in the program", k.words, path, orNone(a), orNone(b))
		}
	}
	d.object(m, p, path)
}

// sameDuration reports whether two texts are the same time, such as 5m and 5m0s.
func sameDuration(s schemaTree, a, b any) bool {
	x, isText := a.(string)
	y, both := b.(string)
	if s.text("format") != durationFormat || !isText || !both {
		return false
	}
	p, wrong := time.ParseDuration(x)
	q, wrongToo := time.ParseDuration(y)
	return wrong == nil && wrongToo == nil && p == q
}

func orNone(v any) string {
	if v == nil {
		return "none"
	}
	return shown(v)
}

func list(v any) string {
	names, _ := v.([]any)
	if len(names) == 0 {
		return "no setting"
	}
	texts := make([]string, len(names))
	for i, n := range names {
		texts[i] = bare(n)
	}
	return strings.Join(texts, ", ")
}
