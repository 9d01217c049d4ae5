// Package profile measures what a load spends its time and memory on: CPU, allocation, mutex
// and block profiles of this process while it does the load, in the format of `go tool pprof`,
// as folded stacks, and as flame graphs. It has the loads too: puts and gets of a store, and
// the calls to a master.
package profile
