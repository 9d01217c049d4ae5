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

// Settings tries the settings of a manifest, one at a time. try makes an object with its settings and frees it.
func Settings(t conformance.TB, m plugin.Manifest, try func(map[string]any) error) {
	var s schema
	if err := json.Unmarshal(m.ConfigSchema, &s); err != nil && len(m.ConfigSchema) > 0 {
		t.Fatalf("the config_schema of the manifest is no JSON schema: %v", err)
	}
	// Some bounds hold only together, such as those of the first and the last port.
	low, high := map[string]any{}, map[string]any{}
	accepts := func(name string, value any, what string, together map[string]any) {
		err := try(map[string]any{name: value})
		if err != nil && len(together) > 1 && try(together) == nil {
			return
		}
		if err != nil {
			t.Errorf("the setting %s is refused with %v, its %s in the manifest: %v", name, value, what, err)
		}
	}
	refuses := func(name string, value any, why string) {
		if try(map[string]any{name: value}) == nil {
			t.Errorf("the setting %s is accepted with %v, %s", name, value, why)
		}
	}
	defaults := map[string]any{}
	for name, p := range s.Properties {
		if p.Default != nil && p.Default != "" { // An empty text is a setting that is not set.
			defaults[name] = p.Default
		}
		if p.Minimum != nil {
			low[name] = *p.Minimum
		}
		if p.Maximum != nil {
			high[name] = *p.Maximum
		}
	}
	if err := try(defaults); err != nil { // All at once; which one it is costs a try for each.
		for _, name := range slices.Sorted(maps.Keys(defaults)) {
			accepts(name, defaults[name], "default", nil)
		}
		t.Errorf("the defaults of the manifest are refused: %v", err)
	}
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		p := s.Properties[name]
		if p.Type != "integer" && p.Type != "number" {
			continue
		}
		if p.Minimum != nil {
			accepts(name, *p.Minimum, "minimum", low)
			refuses(name, *p.Minimum-1, fmt.Sprintf("below its minimum in the manifest, %v", *p.Minimum))
		}
		if p.Maximum != nil {
			accepts(name, *p.Maximum, "maximum", high)
			refuses(name, *p.Maximum+1, fmt.Sprintf("above its maximum in the manifest, %v", *p.Maximum))
		}
	}
	refuses("a_setting_that_no_plugin_has", 1, "although the manifest does not have it")
}
