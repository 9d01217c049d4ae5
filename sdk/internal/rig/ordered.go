package rig

import (
	"cmp"
	"iter"
	"maps"
	"slices"
)

// Ordered ranges over a map in the order of its keys, so that a plugin with several faults reports the same one in every run.
func Ordered[K cmp.Ordered, V any](m map[K]V) iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		for _, k := range slices.Sorted(maps.Keys(m)) {
			if !yield(k, m[k]) {
				return
			}
		}
	}
}
