// Command mooncake-plugin-evict-fifo is evict/fifo as a program that mooncake starts.
package main

import (
	fifo "example.com/evict-fifo"
	"github.com/mooncake-go/mooncake/sdk/serve"
)

func main() { serve.Main(fifo.Factory()) }
