// Command mooncake-plugin-transport-shm is transport/shm as a program of its own, started by
// mooncake where the configuration says mode: subprocess.
package main

import (
	shm "github.com/mooncake-go/mooncake/plugins/transport-shm"
	"github.com/mooncake-go/mooncake/sdk/serve"
)

func main() { serve.Main(shm.Factory()) }
