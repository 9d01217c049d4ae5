// Package reference is the smallest transport that keeps every rule of package transport:
// it copies between nodes of one process. The suite is tested on it, hosts can be, and
// authors can read it beside the contract.
//
// A Network holds the nodes that can reach one another.
//
//	n := reference.NewNetwork()
//	transporttest.Run(t, n.Factory(), n.Options()...)
package reference
