// Package bench is the room behind `mooncake demo` and `mooncake bench`: workloads, page
// content, measuring and reports. It knows no process, no flag and no network.
//
//	trace     reads and writes the request traces of the FAST'25 format
//	workload  makes a multi-turn conversation load, and shares a load among workers
//	content   page content by block, and its verification
//	oracle    an independent count of what an LRU pool would have hit, and the optimum
//	evictsim  plays a trace against eviction policies and counts hits
//	masterload fills a master with keys and loads it while it evicts
//	profile   profiles and flame graphs of a store and a master under load
//	worker    replays a load against a pool, measures, and reports over a pipe
//	report    one report out of the results of all workers
//	progress  progress bars on a terminal, plain lines elsewhere
//	micro     limits of this machine: memory, checksum, plugins, transports
package bench
