package metadata

import "context"

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
