package metadata

import (
	"context"
	"errors"
)

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
