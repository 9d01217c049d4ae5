package metadata

import "context"

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
