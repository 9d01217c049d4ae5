// Command mooncake-plugin-transport-quic is transport/quic as a program of its own, started by
// mooncake where the configuration says mode: subprocess.
package main

import (
	quic "github.com/mooncake-go/mooncake/plugins/transport-quic"
	"github.com/mooncake-go/mooncake/sdk/serve"
)

func main() { serve.Main(quic.Factory()) }
