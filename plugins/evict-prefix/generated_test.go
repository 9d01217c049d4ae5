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
		"conversations":               conversations(1, 3000),
		"documents":                   documents(1, 3000),
		"zipf":                        zipf(1, 60_000, 20_000, 0),
		"zipf that shifts":            zipf(2, 60_000, 20_000, 10_000),
		"drift":                       drift(1, 60_000, 300),
		"wide drift":                  drift(2, 60_000, 3000),
		"loop":                        loop(0, 2000, 1500, 30),
		"loop of single pages":        loop(0, 60_000, 1500, 1),
		"zipf and scans":              mixed(1, zipf(3, 30_000, 10_000, 0), scan(far, 300, 100)),
		"drift and scans":             mixed(2, drift(3, 30_000, 300), scan(far, 300, 100)),
		"drift and loop":              mixed(3, drift(3, 30_000, 300), loop(far, 1000, 3000, 30)),
		"conversations, then drift":   join(conversations(2, 1500), drift(4, 30_000, 300)),
		"drift, then conversations":   join(drift(5, 30_000, 300), conversations(3, 1500)),
		"scan, then drift":            join(scan(far, 300, 100), drift(6, 30_000, 300)),
		"documents and zipf":          mixed(4, documents(2, 1500), zipf(4, 30_000, 10_000, 5000)),
		"conversations and documents": mixed(5, conversations(4, 1500), documents(3, 1500)),
	}
}

// TestNeverMuchWorseThanLRU: on no workload and at no capacity has the policy less than
// 0.95 of the hits of LRU.
func TestNeverMuchWorseThanLRU(t *testing.T) {
	for name, load := range workloads() {
		for _, capacity := range []int{200, 1000, 3000} {
			t.Run(fmt.Sprintf("%s/%d", name, capacity), func(t *testing.T) {
				t.Parallel()
				lru := replayLRU(load, capacity).ratio()
				got := replay(t, newPolicy(), load, capacity, true).ratio()
				t.Logf("%.4f, LRU %.4f, %.3f", got, lru, got/lru)
				assert.GreaterOrEqual(t, got, 0.95*lru)
			})
		}
	}
}
