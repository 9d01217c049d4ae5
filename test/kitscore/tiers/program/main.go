// Command program is tier/file with a bug that its settings name.
package main

import (
	"github.com/mooncake-go/mooncake/sdk/serve"
	"github.com/mooncake-go/mooncake/test/kitscore/tiers"
)

func main() { serve.Main(tiers.Factory()) }
