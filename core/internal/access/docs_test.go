package access_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/internal/access"
	"github.com/mooncake-go/mooncake/sdk/security"
)

var update = flag.Bool("update", false, "write the table of docs/security.md")

// shown are the services in the words of docs/security.md.
var shown = map[string]string{
	access.MasterService: "`rpc`, `follow`", access.UpstreamService: "`rpc`, upstream's functions", access.TierService: "`offload`", access.StatusService: "`local`",
	access.Handshake: "`handshake`", access.Profiles: "HTTP, with `debug.pprof`",
}

// written returns the table of calls: a row for each door and set of roles.
func written() string {
	var b strings.Builder
	b.WriteString("| door | calls | roles beside `master` |\n|---|---|---|\n")
	var rows []string
	calls := map[string][]string{}
	for _, c := range access.Table() {
		door := shown[c.Service]
		if door == "" {
			door = "`" + c.Service + "`"
		}
		var roles []string
		for _, r := range c.Roles {
			if r != security.RoleMaster {
				roles = append(roles, "`"+string(r)+"`")
			}
		}
		who := strings.Join(roles, ", ")
		if c.Pool {
			who += " without a tenant"
		}
		if who == "" {
			who = "none"
		}
		row := door + " | %s | " + who
		if calls[row] == nil {
			rows = append(rows, row)
		}
		calls[row] = append(calls[row], "`"+c.Name+"`")
	}
	for _, row := range rows {
		fmt.Fprintf(&b, "| "+row+" |\n", strings.Join(calls[row], ", "))
	}
	return b.String()
}

// TestTheDocumentationHasTheTable of calls as it is.
func TestTheDocumentationHasTheTable(t *testing.T) {
	file := filepath.Join("..", "..", "..", "docs", "security.md")
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	const begin, end = "<!-- calls -->\n", "<!-- end of calls -->"
	before, rest, ok := strings.Cut(string(text), begin)
	require.True(t, ok)
	_, after, ok := strings.Cut(rest, end)
	require.True(t, ok)
	want := before + begin + "\n" + written() + "\n" + end + after
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(want), 0o644)) //nolint:gosec // For all to read.
	}
	if text, err = os.ReadFile(file); *update {
		require.NoError(t, err)
	}
	require.Equal(t, want, string(text), "write it again: go test ./core/internal/access -run TestTheDocumentation -update")
}
