package scaffold

import (
	"go/token"
	"go/types"
	"slices"
	"strings"

	"github.com/mooncake-go/mooncake/sdk/plugin"
)

// imported are names that the files of a module use for packages or functions, and which
// its own package must not take.
var imported = []string{
	"alloc", "alloctest", "binary", "bytes", "context", "defaults", "errors", "errs", "evict", "evicttest", "fmt", "init", "io", "iter",
	"list", "main", "maps", "net", "os", "pathkit", "plugin", "policy", "rand", "serve", "shm", "slices", "slog", "sort", "space", "sync",
	"syscall", "testing", "time", "transport", "transporttest", "unix", "wire", "wiretest",
}

// packageName makes the name of the Go package: the plugin's name without dashes, with the
// kind behind it where that is no name for a package here.
func packageName(id plugin.ID) string {
	name := strings.ReplaceAll(id.Name, "-", "")
	if token.IsKeyword(name) || types.Universe.Lookup(name) != nil || slices.Contains(imported, name) || strings.HasSuffix(name, "test") {
		name += id.Kind
	}
	return name
}
