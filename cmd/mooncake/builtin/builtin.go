// Package builtin is the list of plugins that are linked into the program. Leave one out
// with its build tag (mooncake_no_evict_lru, ...) and it can still be loaded as a binary.
package builtin

import "github.com/mooncake-go/mooncake/sdk/plugin"

// Plugins returns the factories, in the order in which they are listed.
func Plugins() []plugin.Factory {
	var all []plugin.Factory
	for _, group := range [][]plugin.Factory{transportTCP(), transportRDMA(), transportSHM(), transportQUIC(), allocators(), evictPrefix(), evictLRU(), evictS3FIFO(), evictSIEVE(), tierFile()} {
		all = append(all, group...)
	}
	return all
}
