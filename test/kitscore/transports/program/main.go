// Command program is transport/mutant: transport/tcp with a bug that a variable names.
package main

import (
	"os"

	"github.com/mooncake-go/mooncake/sdk/serve"
	"github.com/mooncake-go/mooncake/test/kitscore"
	"github.com/mooncake-go/mooncake/test/kitscore/transports"
)

func main() { serve.Main(transports.Factory(os.Getenv(kitscore.BugEnv))) }
