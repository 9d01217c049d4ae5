// Command program is alloc/arena with a bug that its settings name.
package main

import (
	"github.com/mooncake-go/mooncake/sdk/serve"
	"github.com/mooncake-go/mooncake/test/kitscore/allocators"
)

func main() { serve.Main(allocators.Factory()) }
