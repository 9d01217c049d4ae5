// Command program is evict/lru with a bug that a variable names.
package main

import (
	"os"

	"github.com/mooncake-go/mooncake/sdk/serve"
	"github.com/mooncake-go/mooncake/test/kitscore"
	"github.com/mooncake-go/mooncake/test/kitscore/evictors"
)

func main() { serve.Main(evictors.Factory(os.Getenv(kitscore.BugEnv))) }
