// Command program is evict/lru with a bug that its settings name.
package main

import (
	"github.com/mooncake-go/mooncake/sdk/serve"
	"github.com/mooncake-go/mooncake/test/kitscore/evictors"
)

func main() { serve.Main(evictors.Factory()) }
