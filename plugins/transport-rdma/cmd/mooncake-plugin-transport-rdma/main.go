// Command mooncake-plugin-transport-rdma is transport/rdma as a program of its own, started by
// mooncake where the configuration says mode: subprocess.
package main

import (
	rdma "github.com/mooncake-go/mooncake/plugins/transport-rdma"
	"github.com/mooncake-go/mooncake/sdk/serve"
)

func main() { serve.Main(rdma.Factory()) }
