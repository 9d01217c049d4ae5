// Command mooncake-plugin-tier-s3 is tier/s3 as a program that mooncake starts.
package main

import (
	s3 "example.com/tier-s3"
	"github.com/mooncake-go/mooncake/sdk/serve"
)

func main() { serve.Main(s3.Factory()) }
