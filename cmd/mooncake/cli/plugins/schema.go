package plugins

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/mooncake-go/mooncake/cmd/mooncake/internal/output"
)

// maxSchemaDepth bounds the nesting of settings.
const maxSchemaDepth = 4

// setting is a property of a plugin's schema.
type setting struct{ name, kind, def, allowed, text string }

// writeSettings writes a JSON Schema as a table of settings. It omits parts that it does not
// understand, since plugin authors write schemas.
func writeSettings(w io.Writer, id string, schema any) {
	found := settings(nil, "", schema, 0)
	if len(found) == 0 {
		fmt.Fprintln(w, "\nIt has no settings.")
		return
	}
	fmt.Fprintf(w, "\nSettings, plugins.%s.config:\n", strings.Replace(id, "/", ".", 1))
	t := output.NewColumns("NAME", "TYPE", "DEFAULT", "ALLOWED", "MEANING")
	for _, s := range found {
		t.Row(s.name, output.Dash(s.kind), output.Dash(s.def), output.Dash(s.allowed), s.text)
	}
	_ = t.Write(w) // The writer keeps the error.
}

func settings(out []setting, prefix string, schema any, depth int) []setting {
	top, _ := schema.(map[string]any)
	properties, _ := top["properties"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		p, _ := properties[name].(map[string]any)
		if inner, ok := p["properties"].(map[string]any); ok && len(inner) > 0 && depth < maxSchemaDepth {
			out = settings(out, prefix+name+".", p, depth+1)
			continue
		}
		s := setting{name: prefix + name, kind: plain(p["type"]), allowed: allowedBy(p)}
		s.text, _ = p["description"].(string)
		if d, ok := p["default"]; ok {
			s.def = plain(d)
		}
		out = append(out, s)
	}
	return out
}

// allowedBy describes the allowed values of a property.
func allowedBy(p map[string]any) string {
	var parts []string
	if list, ok := p["enum"].([]any); ok {
		for _, v := range list {
			parts = append(parts, plain(v))
		}
		return strings.Join(parts, ", ")
	}
	for _, bound := range []struct{ key, word, unit string }{
		{"minimum", "from", ""}, {"exclusiveMinimum", "more than", ""}, {"maximum", "to", ""}, {"exclusiveMaximum", "less than", ""},
		{"formatMinimum", "from", ""}, {"formatMaximum", "to", ""}, {"pattern", "matching", ""},
		{"minLength", "at least", " characters"}, {"maxLength", "at most", " characters"}, {"minItems", "at least", " items"}, {"maxItems", "at most", " items"},
	} {
		if v, ok := p[bound.key]; ok {
			parts = append(parts, bound.word+" "+plain(v)+bound.unit)
		}
	}
	return strings.Join(parts, " ")
}

// plain returns a value as a user would write it.
func plain(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return v
	case float64:
		if v == float64(int64(v)) {
			return fmt.Sprint(int64(v))
		}
	}
	text, err := json.Marshal(v)
	if err != nil {
		return ""
	}
	return string(text)
}
