package hicache

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// Title is the first line of the text form.
const Title = "Mooncake HiCache HugeTLB sizing summary"

var statuses = map[State][2]string{
	PlanningOnly: {"planning only", "these are the sizes to plan with; how many huge pages this host has set aside is not known."},
	Insufficient: {"insufficient for baseline", "fewer huge pages are set aside than host cache and segments take. " +
		"The engine will fail to start, or fail at a later allocation."},
	BaselineFits: {"baseline fits, arena may fall back", "host cache and segments have their huge pages; the arenas do not all fit. " +
		"A rank without its arena maps each buffer by itself."},
	CleanBudget: {"clean arena budget available", "there are huge pages for host caches, segments and arenas of all ranks."},
}

const note = "Note: the baseline is host cache and segment of every rank, the least that a start takes. " +
	"The clean arena target adds an arena for every rank."

// WriteText writes the summary that operators read.
func (p *Plan) WriteText(w io.Writer) error {
	available := "unavailable (planning-only mode)"
	if p.AvailableBytes != nil {
		available = FormatSize(*p.AvailableBytes)
	}
	given := func(text string, n int64) string { return fmt.Sprintf("%s (%s)", text, FormatSize(n)) }
	var b strings.Builder
	line := func(label, value string) { fmt.Fprintf(&b, "%-23s %s\n", label+":", value) }
	b.WriteString(Title + "\n\n")
	line("tp-size", fmt.Sprint(p.Ranks))
	line("hicache-size", given(p.Cache, p.CacheBytes))
	line("global-segment-size", given(p.Segment, p.SegmentBytes))
	line("arena-pool-size", given(p.Arena, p.ArenaBytes))
	line("hugepage-size", given(p.Page, p.PageBytes))
	line("available HugeTLB", available)
	b.WriteString("\n")
	line("baseline floor / rank", FormatSize(p.BaselinePerRank))
	line("baseline floor / total", FormatSize(p.BaselineTotal))
	line("clean arena / rank", FormatSize(p.CleanPerRank))
	line("clean arena / total", FormatSize(p.CleanTotal))
	s := statuses[p.State]
	fmt.Fprintf(&b, "\nStatus: %s\nMeaning: %s\n\n%s\n", s[0], s[1], note)
	if missing := p.Missing(); missing > 0 {
		fmt.Fprintf(&b, "\nMissing: %s, %d huge pages; %d in all are needed.\n", FormatSize(missing), p.pages(missing), p.pages(p.CleanTotal))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// Missing returns the bytes in huge pages that a clean start lacks, 0 where the machine's
// are not known.
func (p *Plan) Missing() int64 {
	if p.AvailableBytes == nil {
		return 0
	}
	return max(0, p.CleanTotal-*p.AvailableBytes)
}

// pages returns how many huge pages hold n bytes.
func (p *Plan) pages(n int64) int64 {
	if n == 0 {
		return 0
	}
	return (n-1)/p.PageBytes + 1
}

// WriteJSON writes the same for programs; sizes are in bytes.
func (p *Plan) WriteJSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(struct {
		Status          State  `json:"status"`
		ExitCode        int    `json:"exit_code"`
		Ranks           int    `json:"tp_size"`
		Cache           int64  `json:"hicache_size_bytes"`
		Segment         int64  `json:"global_segment_size_bytes"`
		Arena           int64  `json:"arena_pool_size_bytes"`
		Page            int64  `json:"hugepage_size_bytes"`
		Available       *int64 `json:"available_bytes"`
		BaselinePerRank int64  `json:"baseline_per_rank_bytes"`
		BaselineTotal   int64  `json:"baseline_total_bytes"`
		CleanPerRank    int64  `json:"clean_arena_per_rank_bytes"`
		CleanTotal      int64  `json:"clean_arena_total_bytes"`
		Missing         int64  `json:"missing_bytes"`
		PagesNeeded     int64  `json:"hugepages_needed"`
	}{
		p.State, p.State.ExitCode(), p.Ranks, p.CacheBytes, p.SegmentBytes, p.ArenaBytes, p.PageBytes, p.AvailableBytes,
		p.BaselinePerRank, p.BaselineTotal, p.CleanPerRank, p.CleanTotal, p.Missing(), p.pages(p.CleanTotal),
	})
}
