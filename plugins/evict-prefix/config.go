package prefix

import "github.com/mooncake-go/mooncake/sdk/plugin"

// Config is empty: the policy learns from the requests what others would tune.
type Config = plugin.NoConfig
