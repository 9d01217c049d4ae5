//go:build mooncake_no_transport_shm

package builtin

import "github.com/mooncake-go/mooncake/sdk/plugin"

func transportSHM() []plugin.Factory { return nil }
