// Command program is tier/file with a bug that a variable names.
package main

import (
	"os"

	"github.com/mooncake-go/mooncake/sdk/serve"
	"github.com/mooncake-go/mooncake/test/kitscore"
	"github.com/mooncake-go/mooncake/test/kitscore/tiers"
)

func main() { serve.Main(tiers.Factory(os.Getenv(kitscore.BugEnv))) }
