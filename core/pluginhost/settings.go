package pluginhost

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/wire"
)

// CheckSettings checks the settings of every plugin in a configuration that is linked in or found in a folder,
// whether the configuration selects it or not. It decodes those of a plugin that is linked in as the plugin will. For
// a program it compares the names with the schema in the manifest, and runs nothing. It fails with InvalidParams.
func (c *Catalog) CheckSettings(p config.Plugins) error {
	var failed []error
	for _, kind := range plugin.Kinds() {
		entries := p.OfKind(kind)
		for _, name := range slices.Sorted(maps.Keys(entries)) {
			id, entry := plugin.ID{Kind: kind, Name: name}, entries[name]
			if len(entry.Config) == 0 {
				continue
			}
			h, err := c.resolve(id, Mode(entry.Mode))
			if err != nil {
				continue // Where the plugin is used, this is an error.
			}
			if err := h.checkSettings(entry.Config); err != nil {
				failed = append(failed, errs.Wrap(errs.InvalidParams, strings.TrimSuffix(config.PluginKey(id, ""), "."), err))
			}
		}
	}
	return errors.Join(failed...)
}

func (h home) checkSettings(config map[string]any) error {
	if h.factory != nil {
		text, err := settings(config)
		if err == nil {
			_, err = wire.DecodeConfig(h.factory, text)
		}
		return err
	}
	var schema any
	text := h.entry.Manifest().ConfigSchema
	if len(text) == 0 {
		return nil // Its author describes no settings.
	}
	if err := json.Unmarshal(text, &schema); err != nil {
		return fmt.Errorf("the settings in the manifest of %s: %w", h.entry.Home, err)
	}
	return unknownSetting(schema, config, "")
}

// maxSettingDepth bounds the nesting of settings.
const maxSettingDepth = 8

// unknownSetting returns an error for a setting that a schema rules out: one without a description, in an object that
// says that it has no others.
func unknownSetting(schema any, config map[string]any, prefix string) error {
	object, _ := schema.(map[string]any)
	properties, _ := object["properties"].(map[string]any)
	closed := object["additionalProperties"] == false
	for _, name := range slices.Sorted(maps.Keys(config)) {
		inner, known := properties[name]
		switch values, nested := config[name].(map[string]any); {
		case !known && closed:
			return noSuchSetting(prefix+name, name, slices.Sorted(maps.Keys(properties)))
		case known && nested && strings.Count(prefix, ".") < maxSettingDepth:
			if err := unknownSetting(inner, values, prefix+name+"."); err != nil {
				return err
			}
		}
	}
	return nil
}

func noSuchSetting(path, name string, known []string) error {
	if near := config.Nearest(name, known); near != "" {
		return fmt.Errorf("unknown setting %q: did you mean %q?", path, near)
	}
	if len(known) == 0 {
		return fmt.Errorf("unknown setting %q: there are no settings here", path)
	}
	return fmt.Errorf("unknown setting %q: the settings here are %s", path, strings.Join(known, ", "))
}
