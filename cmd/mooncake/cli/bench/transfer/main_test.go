package transfer_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/mooncake-go/mooncake/cmd/mooncake/builtin"
	"github.com/mooncake-go/mooncake/cmd/mooncake/cli"
)

// asProgram makes the test binary the program itself, for tests of several processes. Its
// value is the name that the program was called by.
const asProgram = "CLI_TEST_PROGRAM"

func TestMain(m *testing.M) {
	if name := os.Getenv(asProgram); name != "" {
		os.Exit(cli.Main(append([]string{name}, os.Args[1:]...), builtin.Plugins()))
	}
	goleak.VerifyTestMain(m)
}
