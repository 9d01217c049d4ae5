package prefix

import (
	_ "embed" // for manifest.json

	"github.com/mooncake-go/mooncake/sdk/plugin"
)

//go:embed manifest.json
var manifestJSON string

// manifest describes the plugin. The host finds the same text in the program's bytes.
func manifest() plugin.Manifest { return plugin.MustParseManifest(manifestJSON) }
