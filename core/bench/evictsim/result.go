package evictsim

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
)

// Result is what one policy hit at one capacity.
type Result struct {
	Policy string `json:"policy"`
	// Capacity of the pool in blocks.
	Capacity int `json:"capacity"`
	// BlockHitRatio and PrefixHitRatio are hits by blocks looked up, 0 to 1.
	BlockHitRatio  float64 `json:"block_hit_ratio"`
	PrefixHitRatio float64 `json:"prefix_hit_ratio"`
	// Default marks the policy that a master uses unless told otherwise.
	Default bool `json:"default"`
	// TierRatio is the capacity of memory to that of the tier, such as 1:10. Without a tier it is empty.
	TierRatio   string `json:"tier_ratio,omitempty"`
	*TierResult        // nil without a tier, and for the optimum, which has one pool of both capacities
}

// TierResult is what happened between memory and the tier, in blocks.
type TierResult struct {
	// MemoryHits and TierHits are the prefix hits. TierHits counts blocks that were in the tier only.
	MemoryHits int `json:"memory_hits"`
	TierHits   int `json:"tier_hits"`
	// Promotions counts the copies from the tier to memory.
	Promotions int `json:"promotions"`
	// TierWrites is the number of writes to the tier for each block that was inserted because it was in neither.
	TierWrites float64 `json:"tier_writes_per_insert"`
}

// count takes over the hits among a number of blocks.
func (r *Result) count(h Hits, blocks int, c Contender, x *Tiers) {
	r.BlockHitRatio = float64(h.Blocks) / float64(blocks)
	r.PrefixHitRatio = float64(h.Prefix) / float64(blocks)
	if x == nil {
		return
	}
	r.TierRatio = x.String()
	if c.Factory != nil {
		r.TierResult = &TierResult{
			MemoryHits: h.Prefix - h.Tier, TierHits: h.Tier, Promotions: h.Promotions,
			TierWrites: float64(h.Writes) / float64(blocks-h.Blocks),
		}
	}
}

// Results is the outcome of a sweep: every policy at every capacity, once.
type Results []Result

// Find returns the result of a policy at a capacity.
func (rs Results) Find(policy string, capacity int) (Result, bool) {
	i := slices.IndexFunc(rs, func(r Result) bool { return r.Policy == policy && r.Capacity == capacity })
	if i < 0 {
		return Result{}, false
	}
	return rs[i], true
}

// baseline is the policy from which the gap to the optimum is measured.
const baseline = "lru"

// Text prints tables for people: a row for each policy, a column for each capacity.
// The last table, the share of the gap from LRU to the optimum that a policy closes, is
// there when both are.
func (rs Results) Text(w io.Writer) {
	over := ""
	if len(rs) > 0 && rs[0].TierRatio != "" {
		over = ", memory and tier " + rs[0].TierRatio
	}
	rs.table(w, "block hit ratio"+over, func(r Result) string { return fmt.Sprintf("%.4f", r.BlockHitRatio) })
	fmt.Fprintln(w)
	rs.table(w, "prefix hit ratio"+over, func(r Result) string { return fmt.Sprintf("%.4f", r.PrefixHitRatio) })
	if over != "" {
		rs.tierTables(w)
	}
	has := func(policy string) bool {
		return slices.ContainsFunc(rs, func(r Result) bool { return r.Policy == policy })
	}
	if has(baseline) && has(OptimumName) {
		fmt.Fprintln(w)
		rs.table(w, "gap closed, lru to optimum, by blocks", rs.closed)
	}
}

// tierTables prints what happened between memory and the tier.
func (rs Results) tierTables(w io.Writer) {
	for _, x := range []struct {
		title string
		cell  func(TierResult) string
	}{
		{"prefix hits in memory, blocks", func(r TierResult) string { return fmt.Sprint(r.MemoryHits) }},
		{"prefix hits in the tier, blocks", func(r TierResult) string { return fmt.Sprint(r.TierHits) }},
		{"promotions to memory, blocks", func(r TierResult) string { return fmt.Sprint(r.Promotions) }},
		{"tier writes per insert", func(r TierResult) string { return fmt.Sprintf("%.2f", r.TierWrites) }},
	} {
		fmt.Fprintln(w)
		rs.table(w, x.title, func(r Result) string {
			if r.TierResult == nil {
				return "-"
			}
			return x.cell(*r.TierResult)
		})
	}
}

// closed is the share of the gap that a policy closes, a dash where there is no gap.
func (rs Results) closed(r Result) string {
	low, ok := rs.Find(baseline, r.Capacity)
	high, ok2 := rs.Find(OptimumName, r.Capacity)
	if gap := high.BlockHitRatio - low.BlockHitRatio; ok && ok2 && gap > 0 {
		return fmt.Sprintf("%.1f %%", 100*(r.BlockHitRatio-low.BlockHitRatio)/gap)
	}
	return "-"
}

func (rs Results) table(w io.Writer, title string, cell func(Result) string) {
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', tabwriter.AlignRight)
	row := func(first string, cells []string) {
		// Filled up here, so that names stand on the left; the writer's gap indents them.
		fmt.Fprintf(t, "%-*s\t%s\t\n", rs.nameWidth(), first, strings.Join(cells, "\t"))
	}
	var head []string
	for _, r := range rs {
		if r.Policy == rs[0].Policy {
			head = append(head, fmt.Sprint(r.Capacity))
		}
	}
	fmt.Fprintln(w, title)
	row("blocks", head)
	for from := 0; from < len(rs); from += len(head) {
		cells := make([]string, 0, len(head))
		for _, r := range rs[from:min(from+len(head), len(rs))] {
			cells = append(cells, cell(r))
		}
		row(label(rs[from]), cells)
	}
	t.Flush()
}

func label(r Result) string {
	if r.Default {
		return r.Policy + " (default)"
	}
	return r.Policy
}

func (rs Results) nameWidth() (width int) {
	for _, r := range rs {
		width = max(width, len(label(r)))
	}
	return width
}
