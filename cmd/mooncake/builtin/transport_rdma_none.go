//go:build mooncake_no_transport_rdma

package builtin

import "github.com/mooncake-go/mooncake/sdk/plugin"

func transportRDMA() []plugin.Factory { return nil }
