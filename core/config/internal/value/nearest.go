package value

import "strings"

// maxCompared bounds the names that Nearest looks at, in bytes: a longer one is not a
// misspelling of anything.
const maxCompared = 96

// Nearest returns the candidate that name is most likely a misspelling of, empty where
// none is near: at most a third of its letters, and no more than four, differ. The
// comparison ignores case and takes dashes for underscores; the first of equally near
// candidates wins.
func Nearest(name string, candidates []string) string {
	if len(name) > maxCompared {
		return ""
	}
	name = fold(name)
	best, bestDistance := "", min(4, max(1, len(name)/3))+1
	for _, c := range candidates {
		if len(c) > maxCompared || abs(len(c)-len(name)) >= bestDistance {
			continue
		}
		if d := distance(name, fold(c)); d < bestDistance {
			best, bestDistance = c, d
		}
	}
	return best
}

func fold(s string) string { return strings.ReplaceAll(strings.ToLower(s), "-", "_") }

func abs(n int) int { return max(n, -n) }

// distance is the number of letters to insert, remove, replace or swap with their
// neighbour to get from a to b (optimal string alignment).
func distance(a, b string) int {
	before, prev, cur := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := 1; i <= len(a); i++ {
		cur[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			cur[j] = min(prev[j]+1, cur[j-1]+1, prev[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				cur[j] = min(cur[j], before[j-2]+1)
			}
		}
		before, prev, cur = prev, cur, before
	}
	return prev[len(b)]
}
