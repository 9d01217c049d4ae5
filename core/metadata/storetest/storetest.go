// Package storetest is the contract of metadata.Store as tests. Each implementation runs it
// against a real service.
package storetest

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/internal/testkit/heldport"
	"github.com/mooncake-go/mooncake/core/metadata"
)

// Service is a metadata service under test.
type Service struct {
	// Open returns a store with connections of its own, and what closes it; nil for
	// nothing to close.
	Open func(t testing.TB) (metadata.Store, func())
	// OpenAt returns a store whose service is at "host:port" and whose calls take that long
	// at most, and what closes it. Nil for a service in this process.
	OpenAt func(t testing.TB, address string, timeout time.Duration) (metadata.Store, func())
	// Stop ends the service and Start starts it again at its address; nil where that cannot
	// be.
	Stop, Start func(t testing.TB)
	// Forgets says that the service has lost the values after a restart.
	Forgets bool
}

// Run runs all tests. Services are shared: keys are new in each test.
func Run(t *testing.T, s Service) {
	t.Run("Values", func(t *testing.T) { values(t, s) })
	t.Run("EveryByte", func(t *testing.T) { everyByte(t, s) })
	t.Run("Keys", func(t *testing.T) { keys(t, s) })
	t.Run("Duplicates", func(t *testing.T) { duplicates(t, s) })
	t.Run("Descriptors", func(t *testing.T) { descriptors(t, s) })
	t.Run("IsAMap", func(t *testing.T) { isAMap(t, s) })
	t.Run("OneOfManyClaims", func(t *testing.T) { oneOfManyClaims(t, s) })
	t.Run("Concurrency", func(t *testing.T) { concurrency(t, s) })
	t.Run("Closed", func(t *testing.T) { closed(t, s) })
	t.Run("NobodyThere", func(t *testing.T) { nobodyThere(t, s) })
	t.Run("Silent", func(t *testing.T) { silent(t, s) })
	t.Run("Restart", func(t *testing.T) { restart(t, s) })
}

// open returns a store that is closed after the test, and the prefix of the test's keys.
func (s Service) open(t testing.TB) (metadata.Store, string) {
	store, end := s.Open(t)
	if end != nil {
		t.Cleanup(end)
	}
	return store, "mooncake/" + strings.ReplaceAll(t.Name(), " ", "_") + "/"
}

// at is open for a service at an address.
func (s Service) at(t testing.TB, address string, timeout time.Duration) metadata.Store {
	if s.OpenAt == nil {
		t.Skip("this service has no address")
	}
	store, end := s.OpenAt(t, address, timeout)
	t.Cleanup(end)
	return store
}

func found(t testing.TB, s metadata.Store, key, want string) {
	t.Helper()
	v, err := s.Get(t.Context(), key)
	require.NoError(t, err, key)
	require.Equal(t, want, string(v), key)
}

func notFound(t testing.TB, s metadata.Store, key string) {
	t.Helper()
	v, err := s.Get(t.Context(), key)
	require.ErrorIs(t, err, metadata.ErrNotFound, key)
	require.Empty(t, v)
}

// calls are the three calls of a store, for tests in which all have to fail.
func calls(s metadata.Store, key string) map[string]func(context.Context) error {
	return map[string]func(context.Context) error{
		"get":    func(ctx context.Context) error { _, err := s.Get(ctx, key); return err },
		"put":    func(ctx context.Context) error { return s.Put(ctx, key, []byte("v")) },
		"claim":  func(ctx context.Context) error { return s.Put(ctx, key+"rpc_meta/n", []byte("v")) },
		"delete": func(ctx context.Context) error { return s.Delete(ctx, key) },
	}
}

// FreeAddress returns an address of loopback on which no process listens, nor will before
// the test does.
func FreeAddress(t testing.TB) string { return heldport.Address(t) }
