// Command mooncake-plugin-evict-s3fifo is evict/s3fifo as a program of its own, started by mooncake
// where the configuration says mode: subprocess.
package main

import (
	s3fifo "github.com/mooncake-go/mooncake/plugins/evict-s3fifo"
	"github.com/mooncake-go/mooncake/sdk/serve"
)

func main() { serve.Main(s3fifo.Factory()) }
