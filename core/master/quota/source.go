package quota

import (
	"context"
	"fmt"
	"time"
)

// sourceTimeout bounds a read or write of the policy.
const sourceTimeout = 5 * time.Second

// none is the version of a Source that has no policy yet, in which no tenant is registered.
const none = "0"

// Source is where a policy is: a file, or a key of etcd. Safe for concurrent use.
type Source interface {
	// String names it in messages.
	fmt.Stringer
	// Read returns the text, at most MaxPolicySize+1 bytes of it, and its version, which is another one for another text, or none.
	// FileNotFound, FileReadFail, EtcdOperationError.
	Read(ctx context.Context) (text []byte, version string, err error)
	// Write replaces the text that Read returned with a version, and returns the version of the new one. FileWriteFail,
	// EtcdOperationError, UnavailableInCurrentStatus where the text has changed since.
	Write(ctx context.Context, text []byte, version string) (string, error)
	// Close frees connections.
	Close()
}
