//go:build mooncake_no_alloc_arena

package builtin

import "github.com/mooncake-go/mooncake/sdk/plugin"

func allocators() []plugin.Factory { return nil }
