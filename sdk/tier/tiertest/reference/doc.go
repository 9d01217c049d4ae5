// Package reference is a small correct tier in memory: for tests of hosts, and as the subject that
// the conformance suite must accept.
//
// A tier of Factory keeps its records until it stops. One of Surviving keeps them in the Backing of
// its configuration, which tests can damage, block and fail as a disk would.
package reference
