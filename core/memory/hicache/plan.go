// Package hicache works out how many huge pages the ranks of an inference engine with a
// hierarchical cache take, and whether the machine has set that many aside. It only counts.
package hicache

import (
	"errors"
	"fmt"
	"io/fs"
	"math/bits"
	"strconv"
	"strings"
)

// State is the verdict of a Plan.
type State string

// The states.
const (
	PlanningOnly State = "planning_only"
	Insufficient State = "insufficient_for_baseline"
	BaselineFits State = "baseline_fits_arena_may_fallback"
	CleanBudget  State = "clean_arena_budget_available"
)

// ExitCode is the exit code of the program for a state.
func (s State) ExitCode() int {
	switch s {
	case Insufficient:
		return 2
	case BaselineFits:
		return 1
	default:
		return 0
	}
}

// Text is what a Plan is made of, as it was given.
type Text struct {
	Ranks                       int
	Cache, Segment, Arena, Page string
	// Available is the huge pages to compare with; empty for those of the machine.
	Available string
}

// Plan is what the ranks of one machine need, in bytes, and what it has.
type Plan struct {
	Text

	CacheBytes, SegmentBytes, ArenaBytes, PageBytes int64
	// Baseline is host cache and segments; Clean is that and the arenas.
	BaselinePerRank, BaselineTotal, CleanPerRank, CleanTotal int64
	// AvailableBytes is nil where it is not known.
	AvailableBytes *int64
	State          State
}

// Parse reads the sizes and judges them. Without Available it looks at the huge pages
// that the machine has set aside, in use or not, in a file system rooted at "/".
func Parse(t Text, root fs.FS) (*Plan, error) {
	p := &Plan{Text: t}
	for _, s := range []struct {
		text string
		to   *int64
	}{{t.Cache, &p.CacheBytes}, {t.Segment, &p.SegmentBytes}, {t.Arena, &p.ArenaBytes}, {t.Page, &p.PageBytes}} {
		var err error
		if *s.to, err = ParseSize(s.text); err != nil {
			return nil, err
		}
	}
	if p.PageBytes == 0 {
		return nil, errors.New("hugepage_size must be positive")
	}
	if t.Available != "" {
		n, err := ParseSize(t.Available)
		if err != nil {
			return nil, err
		}
		p.AvailableBytes = &n
	} else if n, ok := setAside(root, p.PageBytes); ok {
		p.AvailableBytes = &n
	}
	return p, p.judge()
}

// setAside returns the bytes in huge pages of a size, false where that cannot be read.
func setAside(root fs.FS, page int64) (int64, bool) {
	if page%1024 != 0 {
		return 0, false
	}
	b, err := fs.ReadFile(root, fmt.Sprintf("sys/kernel/mm/hugepages/hugepages-%dkB/nr_hugepages", page/1024))
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
	if err != nil || n < 0 {
		return 0, false
	}
	return times(n, page)
}

func (p *Plan) judge() error {
	if p.Ranks <= 0 {
		return errors.New("tp_size must be positive")
	}
	var ok [4]bool
	p.BaselinePerRank, ok[0] = plus(p.CacheBytes, p.SegmentBytes)
	p.CleanPerRank, ok[1] = plus(p.BaselinePerRank, p.ArenaBytes)
	p.BaselineTotal, ok[2] = times(p.BaselinePerRank, int64(p.Ranks))
	p.CleanTotal, ok[3] = times(p.CleanPerRank, int64(p.Ranks))
	if ok != [4]bool{true, true, true, true} {
		return errors.New("the sizes add up to more than 8 EiB")
	}
	switch a := p.AvailableBytes; {
	case a == nil:
		p.State = PlanningOnly
	case *a < p.BaselineTotal:
		p.State = Insufficient
	case *a < p.CleanTotal:
		p.State = BaselineFits
	default:
		p.State = CleanBudget
	}
	return nil
}

// plus and times work on numbers that are not negative; false where the result is no int64.
func plus(a, b int64) (int64, bool) { return a + b, a+b >= 0 }

func times(a, b int64) (int64, bool) {
	high, low := bits.Mul64(uint64(a), uint64(b))
	return int64(low), high == 0 && int64(low) >= 0
}
