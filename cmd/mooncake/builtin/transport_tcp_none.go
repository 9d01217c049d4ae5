//go:build mooncake_no_transport_tcp

package builtin

import "github.com/mooncake-go/mooncake/sdk/plugin"

func transportTCP() []plugin.Factory { return nil }
