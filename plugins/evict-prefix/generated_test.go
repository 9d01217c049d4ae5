package prefix

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
)

const far = 1 << 27 // keys from here on meet no others

// workloads are many kinds of load, those that other policies are good at included.
func workloads() map[string]trace {
	return map[string]trace{
		"conversations":               conversations(1, 1500),
		"documents":                   documents(1, 1500),
		"zipf":                        zipf(1, 30_000, 10_000, 0),
		"zipf that shifts":            zipf(2, 30_000, 10_000, 5000),
		"drift":                       drift(1, 30_000, 300),
		"wide drift":                  drift(2, 30_000, 2000),
		"loop":                        loop(0, 1000, 1500, 30),
		"loop of single pages":        loop(0, 30_000, 1500, 1),
		"zipf and scans":              mixed(1, zipf(3, 15_000, 10_000, 0), scan(far, 150, 100)),
		"drift and scans":             mixed(2, drift(3, 15_000, 300), scan(far, 150, 100)),
		"drift and loop":              mixed(3, drift(3, 15_000, 300), loop(far, 500, 3000, 30)),
		"conversations, then drift":   join(conversations(2, 700), drift(4, 15_000, 300)),
		"drift, then conversations":   join(drift(5, 15_000, 300), conversations(3, 700)),
		"scan, then drift":            join(scan(far, 150, 100), drift(6, 15_000, 300)),
		"documents and zipf":          mixed(4, documents(2, 700), zipf(4, 15_000, 10_000, 5000)),
		"conversations and documents": mixed(5, conversations(4, 700), documents(3, 700)),
	}
}

// TestNeverMuchWorseThanLRU: on no workload has the policy fewer than 0.98 of the hits of
// LRU. Where it is not told which page follows which, all pages look alike, and after a
// sudden change of the load it takes longer to learn: there it is 0.85.
func TestNeverMuchWorseThanLRU(t *testing.T) {
	if raceEnabled {
		t.Skip("half a minute with the race detector, and nothing here is concurrent")
	}
	for name, load := range workloads() {
		for _, capacity := range []int{200, 1500} {
			lru := replayLRU(load, capacity).ratio()
			for chained, least := range map[bool]float64{true: 0.98, false: 0.85} {
				t.Run(fmt.Sprintf("%s/%d/parents=%t", name, capacity, chained), func(t *testing.T) {
					t.Parallel()
					got := replay(t, newPolicy(), load, capacity, chained).ratio()
					t.Logf("%.4f, LRU %.4f, ratio %.3f", got, lru, got/lru)
					assert.GreaterOrEqual(t, got, least*lru)
				})
			}
		}
	}
}
