// Command program is transport/mutant: transport/tcp with a bug that its settings name.
package main

import (
	"github.com/mooncake-go/mooncake/sdk/serve"
	"github.com/mooncake-go/mooncake/test/kitscore/transports"
)

func main() { serve.Main(transports.Factory()) }
