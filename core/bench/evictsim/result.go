package evictsim

import (
	"encoding/json"
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
}

// Results is the outcome of a sweep: every policy at every capacity, once.
type Results []Result

// WriteJSON prints a list of objects.
func (rs Results) WriteJSON(w io.Writer) error {
	if rs == nil {
		rs = Results{}
	}
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(rs)
}

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

// WriteText prints tables for people: a row for each policy, a column for each capacity.
// The last table, the share of the gap from LRU to the optimum that a policy closes, is
// there when both are.
func (rs Results) WriteText(w io.Writer) error {
	var b strings.Builder
	rs.table(&b, "block hit ratio", func(r Result) string { return fmt.Sprintf("%.4f", r.BlockHitRatio) })
	b.WriteByte('\n')
	rs.table(&b, "prefix hit ratio", func(r Result) string { return fmt.Sprintf("%.4f", r.PrefixHitRatio) })
	has := func(policy string) bool {
		return slices.ContainsFunc(rs, func(r Result) bool { return r.Policy == policy })
	}
	if has(baseline) && has(OptimumName) {
		b.WriteByte('\n')
		rs.table(&b, "gap closed, lru to optimum, by blocks", rs.closed)
	}
	_, err := io.WriteString(w, b.String())
	return err
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

func (rs Results) table(b *strings.Builder, title string, cell func(Result) string) {
	t := tabwriter.NewWriter(b, 0, 8, 2, ' ', tabwriter.AlignRight)
	row := func(first string, cells []string) {
		// Filled up here, so that names stand on the left; the writer's gap indents them.
		_, _ = fmt.Fprintf(t, "%-*s\t%s\t\n", rs.nameWidth(), first, strings.Join(cells, "\t"))
	}
	var head []string
	for _, r := range rs {
		if r.Policy == rs[0].Policy {
			head = append(head, fmt.Sprint(r.Capacity))
		}
	}
	b.WriteString(title + "\n")
	row("blocks", head)
	for from := 0; from < len(rs); from += len(head) {
		cells := make([]string, 0, len(head))
		for _, r := range rs[from:min(from+len(head), len(rs))] {
			cells = append(cells, cell(r))
		}
		row(label(rs[from]), cells)
	}
	_ = t.Flush()
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
