// Package evicttest is the conformance suite of eviction policies.
//
// The author of a policy calls Run from a test with the policy's factory, and again with
// a factory that reaches it through the wire. The suite holds a policy to every sentence
// of package evict and to nothing more: which of two ranked objects goes first is the
// policy's own business.
package evicttest
