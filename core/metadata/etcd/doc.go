// Package etcd is a metadata.Store in etcd, with the keys and values of upstream's nodes.
// Values have no lease: a node that crashes leaves its own behind.
package etcd
