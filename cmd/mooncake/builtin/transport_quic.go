//go:build !mooncake_no_transport_quic

package builtin

import (
	quic "github.com/mooncake-go/mooncake/plugins/transport-quic"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

func transportQUIC() []plugin.Factory { return []plugin.Factory{quic.Factory()} }
