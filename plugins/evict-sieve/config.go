package sieve

import "github.com/mooncake-go/mooncake/sdk/plugin"

// Config is empty: the hand has nothing to tune.
type Config = plugin.NoConfig
