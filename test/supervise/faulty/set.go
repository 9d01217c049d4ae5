package main

import (
	"encoding/json"

	"github.com/mooncake-go/mooncake/sdk/plugin"
)

// set overrides a configuration with values.
func set(cfg plugin.Config, values map[string]any) error {
	text, err := json.Marshal(values)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, cfg)
}
