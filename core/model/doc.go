// Package model holds the nouns of the pool as plain data: keys, objects, replicas,
// segments, clients and leases. It does no I/O and imports no other room.
//
// Units: sizes and addresses are bytes, times are time.Time and time.Duration.
package model
