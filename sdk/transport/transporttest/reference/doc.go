// Package reference is the smallest transport that keeps every rule of package transport: it copies
// between nodes of one process. It serves to test the suite and hosts, and authors can read it
// beside the contract.
//
// A Network holds the nodes that can reach one another.
//
//	n := reference.NewNetwork()
//	transporttest.Run(t, n.Factory(), n.Options()...)
package reference
