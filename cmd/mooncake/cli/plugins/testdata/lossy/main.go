// Command lossy is transport/tcp with a seeded bug: what it moved is said to have failed,
// every third time.
package main

import (
	tcp "github.com/mooncake-go/mooncake/plugins/transport-tcp"
	"github.com/mooncake-go/mooncake/sdk/serve"
	"github.com/mooncake-go/mooncake/sdk/transport/transporttest/faulty"
)

func main() {
	plan := faulty.NewPlan()
	plan.Add(faulty.Rule{Fault: faulty.Fail, Nth: 3})
	serve.Main(faulty.Factory(tcp.Factory(), plan))
}
