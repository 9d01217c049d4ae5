package lru

import "github.com/mooncake-go/mooncake/sdk/plugin"

// Config is empty: recency has nothing to tune.
type Config = plugin.NoConfig
