package command

import (
	"slices"
	"strings"
)

// WithoutPool returns an environment without the settings of a pool, for processes whose pool a
// command sets itself.
func WithoutPool(environ []string) []string {
	return slices.DeleteFunc(slices.Clone(environ), func(kv string) bool {
		return strings.HasPrefix(kv, "MOONCAKE_") || strings.HasPrefix(kv, "MC_")
	})
}
