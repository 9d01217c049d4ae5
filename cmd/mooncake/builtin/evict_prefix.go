//go:build !mooncake_no_evict_prefix

package builtin

import (
	prefix "github.com/mooncake-go/mooncake/plugins/evict-prefix"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

func evictPrefix() []plugin.Factory { return []plugin.Factory{prefix.Factory()} }
