package calls

import (
	_ "embed"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

//go:embed testdata/hashes.txt
var hashes string

// TestHashes compares the numbers of functions and the hashes of their types with those of upstream's
// compiler, for every function of every version.
func TestHashes(t *testing.T) {
	seen := map[string]bool{}
	for line := range strings.Lines(hashes) {
		if line[0] == '#' {
			continue
		}
		columns := strings.Split(strings.TrimSpace(line), " | ")
		require.Len(t, columns, 3, line)
		name, id, _ := strings.Cut(columns[0], " ")
		seen[name] = true
		f := Lookup(parseHash(t, id))
		require.NotNil(t, f, line)
		require.Equal(t, name, f.Name())
		requests, responses := byVersion(t, columns[1]), byVersion(t, columns[2])
		for v := oldest; v <= newest; v++ {
			require.Equal(t, responses[v] != 0, f.Versions().Has(v), "%s in version %d", name, v)
			if !f.Versions().Has(v) {
				continue
			}
			request, response := f.(untyped).untypedRequest(v).schema, f.(untyped).untypedResponse(v).schema
			require.Equal(t, fmt.Sprintf("%08x", requests[v]), fmt.Sprintf("%08x", request.Hash), "request of %s in version %d", name, v)
			require.Equal(t, fmt.Sprintf("%08x", responses[v]), fmt.Sprintf("%08x", response.Hash), "response of %s in version %d", name, v)
		}
	}
	require.Len(t, seen, len(Functions))
	require.Len(t, byID, len(Functions))
}

// byVersion reads a column: "9-11:8a86e11a 12-13:00f78d62".
func byVersion(t *testing.T, column string) map[Version]uint32 {
	hashes := map[Version]uint32{}
	for entry := range strings.FieldsSeq(column) {
		versions, hash, _ := strings.Cut(entry, ":")
		var from, to Version
		if n, _ := fmt.Sscanf(versions, "%d-%d", &from, &to); n == 1 {
			to = from
		}
		for v := from; v <= to; v++ {
			hashes[v] = parseHash(t, hash)
		}
	}
	return hashes
}

func parseHash(t *testing.T, s string) (h uint32) {
	if s == "none" {
		return 0
	}
	_, err := fmt.Sscanf(s, "%08x", &h)
	require.NoError(t, err, s)
	return h
}
