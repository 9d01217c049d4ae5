// Command mooncake-plugin-transport-tcp is transport/tcp as a program of its own, started by
// mooncake where the configuration says mode: subprocess.
package main

import (
	tcp "github.com/mooncake-go/mooncake/plugins/transport-tcp"
	"github.com/mooncake-go/mooncake/sdk/serve"
)

func main() { serve.Main(tcp.Factory()) }
