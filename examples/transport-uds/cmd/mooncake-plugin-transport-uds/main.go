// Command mooncake-plugin-transport-uds is transport/uds as a program that mooncake starts.
package main

import (
	uds "example.com/transport-uds"
	"github.com/mooncake-go/mooncake/sdk/serve"
)

func main() { serve.Main(uds.Factory()) }
