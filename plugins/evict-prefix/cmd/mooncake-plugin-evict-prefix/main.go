// Command mooncake-plugin-evict-prefix is evict/prefix as a program of its own, started by mooncake
// where the configuration says mode: subprocess.
package main

import (
	prefix "github.com/mooncake-go/mooncake/plugins/evict-prefix"
	"github.com/mooncake-go/mooncake/sdk/serve"
)

func main() { serve.Main(prefix.Factory()) }
