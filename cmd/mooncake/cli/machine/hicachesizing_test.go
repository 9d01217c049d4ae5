package machine_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/mooncake-go/mooncake/cmd/mooncake/cli"
	"github.com/mooncake-go/mooncake/cmd/mooncake/internal/clitest"
)

// The exit codes that scripts around it know, under both names.
func TestHicacheSizing(t *testing.T) {
	need := []string{"--tp-size", "2", "--hicache-size", "2gb", "--global-segment-size=1gb", "--arena-pool-size", "1gb"}
	for _, c := range []struct {
		more         []string
		code         int
		out, problem string
	}{
		{[]string{"--available-hugetlb", "5gb"}, 2, "Status: insufficient for baseline", ""},
		{[]string{"--available-hugetlb", "6gb"}, 1, "Status: baseline fits, arena may fall back", ""},
		{[]string{"--available-hugetlb", "8gb"}, 0, "Status: clean arena budget available", ""},
		{[]string{"--available-hugetlb", "8gb", "-o", "json"}, 0, `"status": "clean_arena_budget_available"`, ""},
		{[]string{"--hugepage-size", "3000"}, 0, "Status: planning only", ""},
		{[]string{"--hicache-size", "2 gb"}, 64, "", "error: invalid size: \"2 gb\""},
		{[]string{"--available-hugetlb", "lots"}, 64, "", "error: invalid size: \"lots\""},
		{[]string{"--tp-size", "0"}, 64, "", "error: tp_size must be positive\n"},
		{[]string{"--tp-size", "two"}, 64, "", "error: "},
		{[]string{"--no-such-flag"}, 64, "", "error: "},
		{[]string{"-o", "xml"}, 64, "", "error: output format"},
		{[]string{"stray"}, 64, "", "error: unexpected argument"},
	} {
		for _, name := range [][]string{{"mooncake", "hicache-sizing"}, {"/usr/local/bin/mooncake-hicache-sizing"}} {
			e, stdout, stderr := clitest.New()
			args := append(append(append([]string(nil), name...), need...), c.more...)
			assert.Equal(t, c.code, cli.Run(e, args), "%v", args)
			assert.Contains(t, stdout.String(), c.out)
			if c.problem == "" {
				assert.Empty(t, stderr.String())
			} else {
				assert.Contains(t, stderr.String(), c.problem)
				assert.Empty(t, stdout.String())
			}
		}
	}
	e, _, stderr := clitest.New()
	assert.Equal(t, 64, cli.Run(e, []string{"mooncake-hicache-sizing", "--tp-size", "2"}))
	assert.Equal(t, "error: the following arguments are required: --hicache-size, --global-segment-size\n", stderr.String())
}
