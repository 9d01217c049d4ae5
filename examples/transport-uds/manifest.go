package uds

import (
	_ "embed" // The manifest is part of the program, so that a host can read it without running it.

	"github.com/mooncake-go/mooncake/sdk/plugin"
)

//go:generate go run ./cmd/mooncake-plugin-transport-uds --manifest manifest.json
//go:embed manifest.json
var manifestText string

func manifest() plugin.Manifest { return plugin.MustParseManifest(manifestText) }
