//go:build !mooncake_no_transport_shm

package builtin

import (
	shm "github.com/mooncake-go/mooncake/plugins/transport-shm"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

func transportSHM() []plugin.Factory { return []plugin.Factory{shm.Factory()} }
