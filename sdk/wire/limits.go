package wire

import "time"

const (
	// MaxMessage is the largest gRPC message in bytes, either way.
	MaxMessage = 4 << 20
	// MaxConfig is the largest configuration in bytes of JSON.
	MaxConfig = 1 << 20

	// DefaultTimeout bounds one call of a kind.
	DefaultTimeout = 10 * time.Second
	// LifecycleTimeout bounds Configure, Start and Stop where the context does not.
	LifecycleTimeout = 30 * time.Second

	// MaxText bounds the text of an error for a call, in bytes.
	MaxText = 4 << 10
	// MaxItemText bounds the text of an error for one item of a batch, in bytes.
	MaxItemText = 512

	// maxInFlight bounds the calls of one client that wait for an answer.
	maxInFlight = 1024
)
