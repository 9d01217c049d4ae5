//go:build !mooncake_no_transport_rdma

package builtin

import (
	rdma "github.com/mooncake-go/mooncake/plugins/transport-rdma"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

func transportRDMA() []plugin.Factory { return []plugin.Factory{rdma.Factory()} }
