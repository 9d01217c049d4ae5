// Package redis is a metadata.Store in Redis, with the keys and values of upstream's nodes.
// Values do not expire: a node that crashes leaves its own behind.
package redis
