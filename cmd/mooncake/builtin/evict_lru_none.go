//go:build mooncake_no_evict_lru

package builtin

import "github.com/mooncake-go/mooncake/sdk/plugin"

func evictors() []plugin.Factory { return nil }
