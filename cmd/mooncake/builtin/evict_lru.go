//go:build !mooncake_no_evict_lru

package builtin

import (
	lru "github.com/mooncake-go/mooncake/plugins/evict-lru"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

func evictLRU() []plugin.Factory { return []plugin.Factory{lru.Factory()} }
