//go:build !mooncake_no_evict_sieve

package builtin

import (
	sieve "github.com/mooncake-go/mooncake/plugins/evict-sieve"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

func evictSIEVE() []plugin.Factory { return []plugin.Factory{sieve.Factory()} }
