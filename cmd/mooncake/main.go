// Command mooncake is every role of the pool in one program; `mooncake help` lists them.
package main

import (
	"os"

	"github.com/mooncake-go/mooncake/cmd/mooncake/builtin"
	"github.com/mooncake-go/mooncake/cmd/mooncake/cli"
)

func main() {
	os.Exit(cli.Main(os.Args, builtin.Plugins()))
}
