// Package prefix is the eviction policy evict/prefix.
package prefix
