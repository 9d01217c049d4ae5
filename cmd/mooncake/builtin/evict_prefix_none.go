//go:build mooncake_no_evict_prefix

package builtin

import "github.com/mooncake-go/mooncake/sdk/plugin"

func evictPrefix() []plugin.Factory { return nil }
