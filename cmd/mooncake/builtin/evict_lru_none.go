//go:build mooncake_no_evict_lru

package builtin

import "github.com/mooncake-go/mooncake/sdk/plugin"

func evictLRU() []plugin.Factory { return nil }
