package plugins

import (
	"github.com/mooncake-go/mooncake/cmd/mooncake/internal/command"
	"github.com/mooncake-go/mooncake/core/api/introspect"
)

// What the verbs print as JSON, for tests that run the whole program.
type (
	ListedPlugin = listedPlugin
	LockedPlugin = lockedPlugin
	LockedItem   = lockedItem
	ReloadResult = reloadResult
	Verified     = verified
	Keys         = keys
	Inspection   = inspection
	Installation = installation
	Removal      = removal
)

var (
	ParseSettings = parseSettings
	WriteSettings = writeSettings
)

// Places are the places of admin sockets in an environment.
func Places(environ []string) introspect.Places {
	return verbs{&command.Env{Environ: environ}}.places()
}
