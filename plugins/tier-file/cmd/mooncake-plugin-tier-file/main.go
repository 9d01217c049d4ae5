// Command mooncake-plugin-tier-file is tier/file as a program of its own, started by mooncake where
// the configuration says mode: subprocess.
package main

import (
	file "github.com/mooncake-go/mooncake/plugins/tier-file"
	"github.com/mooncake-go/mooncake/sdk/serve"
)

func main() { serve.Main(file.Factory()) }
