// Package metadata is where nodes find each other: segment descriptors by name.
//
// The package itself holds what all directories share, in the forms that upstream's nodes
// read and write: descriptors and addresses as JSON, the names of keys, the names of
// nodes. The directories are in the subpackages; open picks one by connection string.
package metadata

import (
	"context"
	"errors"
)

// Directory is where nodes find each other's segment descriptors. Safe for concurrent use.
type Directory interface {
	// LocalName is the name under which this process publishes: the name it asked for, or
	// with P2PHANDSHAKE its host and the port of its handshake daemon.
	LocalName() string
	// Publish makes or replaces this process's descriptor. d.Name is LocalName.
	Publish(ctx context.Context, d *Descriptor) error
	// Lookup fetches the descriptor of a peer; it does not cache. ErrNotFound when the
	// directory answers that there is none, another error when it could not be asked.
	Lookup(ctx context.Context, name string) (*Descriptor, error)
	// Withdraw removes this process's descriptor.
	Withdraw(ctx context.Context) error
	// Close withdraws what is published and frees the directory. Repeatable.
	Close(ctx context.Context) error
}

// ErrDuplicate says that the name is published by another process.
var ErrDuplicate = errors.New("the name is already published with another address")

// Store is a metadata service as upstream's nodes use one: values by key. Safe for
// concurrent use.
type Store interface {
	// Get returns the value of a key, ErrNotFound when there is none. The caller does not
	// change it.
	Get(ctx context.Context, key string) ([]byte, error)
	// Put makes or replaces a value and keeps no reference to it. ErrDuplicate for a
	// RPCMeta key that exists with another value.
	Put(ctx context.Context, key string, value []byte) error
	// Delete removes a key; ErrNotFound when there is none.
	Delete(ctx context.Context, key string) error
}

// Peers is what a directory can do beside Directory when its nodes run handshake daemons.
// Directories have it where they can; ask with a type assertion. Safe for concurrent use.
type Peers interface {
	// Address returns where the daemon of a node listens. ErrNotFound as with Lookup.
	Address(ctx context.Context, name string) (Address, error)
	// Probe reports whether the daemon of a node answers.
	Probe(ctx context.Context, name string) error
	// Notify delivers a message to a node; RPCFail when the node rejects it.
	Notify(ctx context.Context, name string, n Notification) error
}

// Notification is a message from one node to another.
type Notification struct {
	Name    string `json:"name"`
	Message string `json:"notify_msg"`
}
