//go:build mooncake_no_evict_sieve

package builtin

import "github.com/mooncake-go/mooncake/sdk/plugin"

func evictSIEVE() []plugin.Factory { return nil }
