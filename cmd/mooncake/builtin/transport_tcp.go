//go:build !mooncake_no_transport_tcp

package builtin

import (
	tcp "github.com/mooncake-go/mooncake/plugins/transport-tcp"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

func transportTCP() []plugin.Factory { return []plugin.Factory{tcp.Factory()} }
