// Command mooncake-plugin-evict-sieve is evict/sieve as a program of its own, started by mooncake
// where the configuration says mode: subprocess.
package main

import (
	sieve "github.com/mooncake-go/mooncake/plugins/evict-sieve"
	"github.com/mooncake-go/mooncake/sdk/serve"
)

func main() { serve.Main(sieve.Factory()) }
