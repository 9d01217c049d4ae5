// Package cells says how the key space of a pool is cut: into which cell a key falls, under which names the masters of a
// cell elect their leader, and which of them should lead it. What it computes is part of the format of a pool: programs of
// all releases have to agree on it.
package cells

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math/bits"
	"slices"
	"strings"

	"github.com/cespare/xxhash/v2"

	"github.com/mooncake-go/mooncake/core/model"
)

// Max is the largest number of cells.
const Max = 64

// Of returns the cell of a key among n: floor(h * n / 2^64), where h is XXH64 of the key's bytes with seed 0. The tenant does
// not count, because a master that serves one tenant only ignores it.
func Of(key model.Key, n int) int {
	if n <= 1 {
		return 0
	}
	return scale(xxhash.Sum64String(key), n)
}

// OfSegment returns the cell of a segment whose owner has chosen none: Of for the 16 bytes of its ID, high word first.
func OfSegment(id model.SegmentID, n int) int {
	if n <= 1 {
		return 0
	}
	var b [16]byte
	binary.BigEndian.PutUint64(b[:], id.Hi)
	binary.BigEndian.PutUint64(b[8:], id.Lo)
	return scale(xxhash.Sum64(b[:]), n)
}

func scale(hash uint64, n int) int {
	hi, _ := bits.Mul64(hash, uint64(n))
	return int(hi)
}

// Cluster returns the name under which the masters of a cell elect their leader. A cluster's own name has no slash, so that
// no cluster has the name of a cell. A pool of one cell elects under the name of the cluster.
func Cluster(cluster string, cell, n int) string {
	if n <= 1 {
		return cluster
	}
	return fmt.Sprintf("%s/cells/%d", cluster, cell)
}

// Pool returns the name of the cluster of which Cluster has made the name of a cell.
func Pool(cell string) string {
	name, _, _ := strings.Cut(cell, "/cells/")
	return name
}

// Order returns the masters in the order in which they should lead a cell of n. Each master is the first of at most
// ceil(n / number of masters) cells; apart from that the order is by rendezvous hashing, so that a master that joins or
// leaves changes few of them. The masters may come in any order and more than once.
func Order(masters []string, cell, n int) []string {
	masters = slices.Compact(slices.Sorted(slices.Values(masters)))
	if len(masters) == 0 {
		return nil
	}
	most := (n + len(masters) - 1) / len(masters)
	first := map[string]int{}
	for c := 0; ; c++ {
		ranked := rendezvous(masters, c)
		i := slices.IndexFunc(ranked, func(m string) bool { return first[m] < most })
		leader := ranked[i]
		if c == cell {
			return slices.Insert(slices.Delete(ranked, i, i+1), 0, leader)
		}
		first[leader]++
	}
}

// rendezvous returns the masters by XXH64 of "master/cell", the highest first.
func rendezvous(masters []string, cell int) []string {
	out := slices.Clone(masters)
	slices.SortFunc(out, func(a, b string) int {
		return cmp.Or(cmp.Compare(score(b, cell), score(a, cell)), strings.Compare(a, b))
	})
	return out
}

func score(master string, cell int) uint64 {
	return xxhash.Sum64String(fmt.Sprintf("%s/%d", master, cell))
}
