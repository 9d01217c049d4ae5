package machine

import (
	"testing"
	"testing/fstest"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/cmd/mooncake/internal/clitest"
	"github.com/mooncake-go/mooncake/cmd/mooncake/internal/command"
)

// Without --available-hugetlb the pages of the machine count.
func TestHicacheSizingReadsTheMachine(t *testing.T) {
	e, stdout, _ := clitest.New()
	given := pflag.NewFlagSet("", pflag.ContinueOnError)
	for _, name := range []string{"tp-size", "hicache-size", "global-segment-size"} {
		given.String(name, "", "")
		require.NoError(t, given.Set(name, "1"))
	}
	f := sizingFlags{tpSize: 1, cache: "1gb", segment: "0", arena: "0", page: "2mb", output: "text"}
	root := fstest.MapFS{"sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages": {Data: []byte("512\n")}}
	require.NoError(t, verbs{e}.hicacheSizing(given, f, root))
	assert.Contains(t, stdout.String(), "available HugeTLB:      1.00 GiB")
	f.segment = "1"
	var quiet *command.Quiet
	require.ErrorAs(t, verbs{e}.hicacheSizing(given, f, root), &quiet)
	assert.Equal(t, 2, quiet.Code)
}
