package prefix

import (
	"bufio"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/sdk/evict"
)

func replay(t testing.TB, p evict.Policy, trace [][]uint32, capacity int) (float64, float64) {
	ctx := context.Background()
	live := map[uint32]evict.ID{}
	keys := map[evict.ID]uint32{}
	var next evict.ID
	hits, prefix, total := 0, 0, 0
	dst := make([]evict.Candidate, 0, 1)
	for _, r := range trace {
		parent, whole := evict.ID(0), true
		for _, key := range r {
			total++
			id, ok := live[key]
			if ok {
				hits++
				if whole {
					prefix++
				}
				p.Record(ctx, []evict.Event{{Op: evict.Access, ID: id, Parent: parent}})
			} else {
				whole = false
				if len(live) == capacity {
					got, _ := p.Propose(ctx, dst, 1)
					require.Len(t, got, 1)
					delete(live, keys[got[0].ID])
					delete(keys, got[0].ID)
					p.Resolve(ctx, []evict.Verdict{{ID: got[0].ID, Evicted: true}})
				}
				next++
				id = next
				live[key], keys[id] = id, key
				p.Record(ctx, []evict.Event{{Op: evict.Insert, ID: id, Size: 1, Parent: parent, Fingerprint: uint64(key) + 1}})
			}
			parent = id
		}
	}
	return float64(hits) / float64(total), float64(prefix) / float64(total)
}

func TestPublished(t *testing.T) {
	dir := os.Getenv("TRACE_DIR")
	if dir == "" {
		t.Skip("no TRACE_DIR")
	}
	for _, n := range []string{"conversation", "synthetic"} {
		f, err := os.Open(filepath.Join(dir, n+"_trace.jsonl"))
		require.NoError(t, err)
		sc := bufio.NewScanner(f)
		sc.Buffer(nil, 1<<22)
		var tr [][]uint32
		for sc.Scan() {
			var r struct {
				H []uint32 `json:"hash_ids"`
			}
			require.NoError(t, json.Unmarshal(sc.Bytes(), &r))
			tr = append(tr, r.H)
		}
		f.Close()
		for _, c := range []int{1000, 5000, 10000, 30000, 50000} {
			h, p := replay(t, newPolicy(), tr, c)
			t.Logf("%s %6d block %.4f prefix %.4f", n, c, h, p)
		}
	}
}
