package rig

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/mooncake-go/mooncake/sdk/conformance"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

// The check that holds a manifest's schema against what the plugin accepts.
const (
	SettingsCheck = "settings"
	SettingsRule  = "The plugin accepts each setting of its manifest at its default and at its bounds, and refuses one out of its bounds and one that the manifest does not have."
)

// schema is the part of a JSON schema that Settings knows.
type schema struct {
	Properties map[string]struct {
		Type             string
		Default          any
		Minimum, Maximum *float64
		Enum             []any
	}
	AdditionalProperties any
}

// Settings tries the settings of a manifest. try makes an object from each of the settings and frees it; what it returns
// is why each was refused. All bounds are tried at once, and one at a time only if that fails: a start costs much.
func Settings(t conformance.TB, m plugin.Manifest, try func(...map[string]any) []error) {
	var s schema
	if err := json.Unmarshal(m.ConfigSchema, &s); err != nil && len(m.ConfigSchema) > 0 {
		t.Fatalf("the config_schema of the manifest is no JSON schema: %v", err)
	}
	defaults, low, high := map[string]any{}, map[string]any{}, map[string]any{}
	var refused []map[string]any
	var why []string
	refuses := func(name string, value any, text string) {
		refused = append(refused, map[string]any{name: value})
		why = append(why, fmt.Sprintf("the setting %s is accepted with %v, %s", name, value, text))
	}
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		p := s.Properties[name]
		if p.Default != nil && p.Default != "" { // An empty text is a setting that is not set.
			defaults[name] = p.Default
		}
		if p.Type != "integer" && p.Type != "number" {
			continue
		}
		if p.Minimum != nil {
			low[name] = *p.Minimum
			refuses(name, *p.Minimum-1, fmt.Sprintf("below its minimum in the manifest, %v", *p.Minimum))
		}
		if p.Maximum != nil {
			high[name] = *p.Maximum
			refuses(name, *p.Maximum+1, fmt.Sprintf("above its maximum in the manifest, %v", *p.Maximum))
		}
	}
	refuses("a_setting_that_no_plugin_has", 1, "although the manifest does not have it")
	for i, err := range try(refused...) {
		if err == nil {
			t.Errorf("%s", why[i])
		}
	}
	for _, all := range []struct {
		what   string
		values map[string]any
	}{{"default", defaults}, {"minimum", low}, {"maximum", high}} {
		// Some bounds hold only together, such as those of the first and the last port, and others only alone.
		together := try(all.values)[0]
		if together == nil {
			continue
		}
		if all.what == "default" {
			t.Errorf("the defaults of the manifest are refused: %v", together)
		}
		for _, name := range slices.Sorted(maps.Keys(all.values)) {
			if err := try(map[string]any{name: all.values[name]})[0]; err != nil {
				t.Errorf("the setting %s is refused with %v, its %s in the manifest: %v", name, all.values[name], all.what, err)
			}
		}
	}
}

// The check that holds a manifest against the program.
const (
	ProgramCheck = "manifest and program"
	ProgramRule  = "The settings in the manifest are those of the program: names, types, defaults and bounds."
)

// Program compares the settings in the manifest with those that the program says it accepts.
func Program(t conformance.TB, f plugin.Factory) {
	schema, err := f.Settings()
	if err != nil {
		t.Fatalf("the program does not say which settings it accepts: %v", err)
	}
	for _, difference := range plugin.Differences(f.Manifest().ConfigSchema, schema) {
		t.Errorf("%s; in Go, go generate writes the manifest", difference)
	}
}
