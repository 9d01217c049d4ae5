package config

import (
	"bytes"
	"flag"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "rewrite docs/configuration.md")

// docs/configuration.md is what WriteMarkdown writes. Run the test with -update after a
// change of the settings.
func TestTheDocumentationIsCurrent(t *testing.T) {
	const path = "../../docs/configuration.md"
	var out bytes.Buffer
	require.NoError(t, WriteMarkdown(&out))
	if *update {
		require.NoError(t, os.WriteFile(path, out.Bytes(), 0o644)) //nolint:gosec // a page of documentation
	}
	have, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(have), out.String(), "run: go test ./core/config -run TestTheDocumentationIsCurrent -update")
}

func TestReference(t *testing.T) {
	byKey := map[string]FieldDoc{}
	for _, d := range Reference() {
		require.NotContains(t, byKey, d.Key)
		require.NotEmpty(t, d.Doc, d.Key)
		byKey[d.Key] = d
	}
	require.Equal(t, FieldDoc{
		Key: "master.client_ttl", Type: "duration, bare number in s", Default: "10s", Allowed: "from 1s to 24h", Env: "MOONCAKE_MASTER_CLIENT_TTL",
		Flags: []string{"--client_ttl"}, Doc: "how long a node may be silent before its segments count as absent, or are dropped where they have no ledger",
	}, byKey["master.client_ttl"])
	require.Equal(t, []string{"--default_kv_lease_ttl"}, byKey["master.lease_ttl"].Upstream)
	require.Contains(t, byKey, "plugins.<kind>.<name>.mode")
	states := map[string]int{}
	for _, table := range UpstreamReference() {
		for _, n := range table.Names {
			states[n.State]++
			require.NotEmpty(t, n.Key+n.Feature+map[bool]string{true: "-"}[n.State == "read by other programs"], n.Name)
		}
	}
	for _, state := range []string{"supported", "no effect yet", "refused", "read by other programs"} {
		require.NotZero(t, states[state], state)
	}
}
