// Package hicache works out how many huge pages the ranks of an inference engine with a
// hierarchical cache take, and whether the machine has set that many aside. It only counts.
package hicache
