// Command program is alloc/arena with a bug that a variable names.
package main

import (
	"os"

	"github.com/mooncake-go/mooncake/sdk/serve"
	"github.com/mooncake-go/mooncake/test/kitscore"
	"github.com/mooncake-go/mooncake/test/kitscore/allocators"
)

func main() { serve.Main(allocators.Factory(os.Getenv(kitscore.BugEnv))) }
