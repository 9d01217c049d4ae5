//go:build mooncake_no_transport_quic

package builtin

import "github.com/mooncake-go/mooncake/sdk/plugin"

func transportQUIC() []plugin.Factory { return nil }
