// Command program runs property checks as a program that is no test does: on a transport
// whose completions come twice now and then. It writes the report to standard output.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/mooncake-go/mooncake/sdk/conformance"
	"github.com/mooncake-go/mooncake/sdk/transport/transporttest"
	"github.com/mooncake-go/mooncake/sdk/transport/transporttest/faulty"
	"github.com/mooncake-go/mooncake/sdk/transport/transporttest/reference"
)

func main() {
	plan := faulty.NewPlan()
	plan.Add(faulty.Rule{Fault: faulty.Duplicate, Nth: 50})
	n := reference.NewNetwork()
	s := transporttest.Suite(faulty.Factory(n.Factory(), plan), n.Options()...)
	r, err := conformance.Run(context.Background(), s, conformance.Options{Run: "^(manifest|exactly one completion)$"})
	if err == nil {
		err = r.WriteJSON(os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
