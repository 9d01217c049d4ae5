package pluginhost

import (
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/wire"
)

// CheckSettings checks the settings of every plugin in a configuration that is linked in or found in a folder,
// whether the configuration selects it or not. It judges them by the schema in the manifest, and runs no program. Those of a
// plugin that is linked in are decoded as well, as the plugin will. The error is of type config.Problems.
func (c *Catalog) CheckSettings(l *config.Loaded) error {
	var found config.Problems
	for _, kind := range plugin.Kinds() {
		entries := l.Config.Plugins.OfKind(kind)
		for _, name := range slices.Sorted(maps.Keys(entries)) {
			id, entry := plugin.ID{Kind: kind, Name: name}, entries[name]
			if len(entry.Config) == 0 {
				continue
			}
			h, err := c.resolve(id, Mode(entry.Mode))
			if err != nil {
				continue // Where the plugin is used, this is an error.
			}
			found = append(found, problemsOf(l, id, h.checkSettings(entry.Config))...)
		}
	}
	if len(found) == 0 {
		return nil
	}
	return found
}

func (h home) checkSettings(config map[string]any) error {
	text, err := settings(config)
	if err != nil {
		return err
	}
	if h.factory == nil {
		return plugin.CheckSettings(h.entry.Manifest().ConfigSchema, text)
	}
	_, err = wire.DecodeConfig(h.factory, text)
	return err
}

// problemsOf says of each error where its setting was given.
func problemsOf(l *config.Loaded, id plugin.ID, err error) config.Problems {
	var each plugin.SettingErrors
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &each):
		each = plugin.SettingErrors{{Text: err.Error()}}
	}
	var out config.Problems
	for _, e := range each {
		key := strings.TrimSuffix(config.PluginKey(id, e.Name), ".")
		p := &config.Problem{Origin: originOf(l, key), Key: key, Reason: e.Text}
		if config.Redact(key, e.Text) != e.Text {
			p.Reason, p.Hint = "the plugin does not accept the value, which may be a secret", "mooncake plugins inspect "+id.String()+" shows what it accepts"
		}
		out = append(out, p)
	}
	return out
}

// originOf returns where a setting was given, or the first one within it.
func originOf(l *config.Loaded, key string) config.Origin {
	for end := len(key); end > 0; end = strings.LastIndexAny(key[:end], ".[") {
		if o, ok := l.Origin(key[:end]); ok {
			return o
		}
		for _, e := range l.Entries() {
			if strings.HasPrefix(e.Key, key[:end]+".") && e.Origin.Layer > config.LayerPlugin {
				return e.Origin
			}
		}
	}
	return config.Origin{}
}
