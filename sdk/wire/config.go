package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

// DecodeConfig decodes settings, a JSON object or nothing, strictly over the factory's
// defaults and validates the result. It is what a host does for a plugin in process and
// what the server does for one in a process of its own, so that a mistake reads the same
// in both. Errors carry InvalidParams and name the setting by its path.
func DecodeConfig(f plugin.Factory, settings []byte) (plugin.Config, error) {
	op := f.Manifest().String() + ": configure"
	cfg := f.DefaultConfig()
	if len(settings) > MaxConfig {
		return nil, errs.New(errs.InvalidParams, op, "%d bytes of settings, at most %d are allowed", len(settings), MaxConfig)
	}
	if len(bytes.TrimSpace(settings)) > 0 {
		schema, err := f.Settings()
		if err == nil {
			err = plugin.CheckSettings(schema, settings)
		}
		if err == nil {
			err = decodeOver(cfg, settings)
		}
		if err != nil {
			return nil, Wrap(errs.InvalidParams, op, err)
		}
	}
	if err := cfg.Validate(); err != nil {
		return nil, Wrap(errs.InvalidParams, op, err)
	}
	return cfg, nil
}

func decodeOver(cfg plugin.Config, settings []byte) error {
	dec := json.NewDecoder(bytes.NewReader(settings))
	dec.DisallowUnknownFields()
	err := dec.Decode(cfg)
	var wrong *json.UnmarshalTypeError
	switch {
	case errors.As(err, &wrong):
		return errors.New("setting " + wrong.Field + " is a JSON " + wrong.Value + ", want " + wrong.Type.String())
	case err != nil:
		return err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something follows the JSON object of the settings")
	}
	return nil
}
