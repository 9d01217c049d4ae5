package prefix

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// readTrace reads requests, one JSON object a line with the keys of its pages as hash_ids.
func readTrace(tb testing.TB, path string) (t trace) {
	tb.Helper()
	f, err := os.Open(path) //nolint:gosec // a path that the test or its user chose
	require.NoError(tb, err)
	defer func() { require.NoError(tb, f.Close()) }()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<22)
	for lines.Scan() {
		var request struct {
			Pages []uint32 `json:"hash_ids"`
		}
		require.NoError(tb, json.Unmarshal(lines.Bytes(), &request))
		t = append(t, request.Pages)
	}
	require.NoError(tb, lines.Err())
	return t
}

// TestPublishedTraces replays the traces published with the Mooncake paper, where TRACE_DIR
// is the folder that holds them. The least ratios are the best of LRU, SIEVE and S3-FIFO.
func TestPublishedTraces(t *testing.T) {
	dir := os.Getenv("TRACE_DIR")
	if dir == "" {
		t.Skip("TRACE_DIR does not say where the published traces are")
	}
	capacities := []int{500, 1000, 2000, 3000, 5000, 7000, 10000, 20000, 30000, 50000}
	for name, least := range map[string][]float64{
		"conversation": {0.0472, 0.0650, 0.0773, 0.0881, 0.1450, 0.1689, 0.2250, 0.2875, 0.3257, 0.3546},
		"synthetic":    {0.0451, 0.0879, 0.1483, 0.1922, 0.2900, 0.3569, 0.4291, 0.5937, 0.6260, 0.6396},
	} {
		load := readTrace(t, filepath.Join(dir, name+"_trace.jsonl"))
		for i, capacity := range capacities {
			got := replay(t, newPolicy(), load, capacity, true)
			t.Logf("%s, %d blocks: %.4f, prefixes %.4f", name, capacity, got.ratio(), float64(got.prefix)/float64(got.total))
			assert.GreaterOrEqual(t, got.ratio(), least[i]-0.00005, "%s, %d blocks", name, capacity)
		}
	}
}
