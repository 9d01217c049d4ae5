// Command mooncake-plugin-evict-lru is evict/lru as a program of its own, started by mooncake where
// the configuration says mode: subprocess.
package main

import (
	lru "github.com/mooncake-go/mooncake/plugins/evict-lru"
	"github.com/mooncake-go/mooncake/sdk/serve"
)

func main() { serve.Main(lru.Factory()) }
