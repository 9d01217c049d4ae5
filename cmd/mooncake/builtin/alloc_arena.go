//go:build !mooncake_no_alloc_arena

package builtin

import (
	arena "github.com/mooncake-go/mooncake/plugins/alloc-arena"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

func allocators() []plugin.Factory { return []plugin.Factory{arena.Factory()} }
