// Command mooncake-plugin-alloc-arena is alloc/arena as a program of its own, started by mooncake
// where the configuration says mode: subprocess.
package main

import (
	arena "github.com/mooncake-go/mooncake/plugins/alloc-arena"
	"github.com/mooncake-go/mooncake/sdk/serve"
)

func main() { serve.Main(arena.Factory()) }
