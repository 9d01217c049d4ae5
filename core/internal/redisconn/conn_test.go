package redisconn

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestCloseDuringCalls: calls that begin, wait or are in flight when the connection is closed fail, and nothing panics.
func TestCloseDuringCalls(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0") // It accepts nothing, so that calls go on until the end.
	require.NoError(t, err)
	defer ln.Close() //nolint:errcheck // It was a listener.
	for range 300 {
		c, err := New("redis://"+ln.Addr().String(), Options{Service: "test", Timeout: 20 * time.Second})
		require.NoError(t, err)
		var calls sync.WaitGroup
		started := make(chan struct{}, 1)
		for range 4 * maxConnections {
			calls.Go(func() {
				for {
					err := c.Do(context.Background(), func(ctx context.Context) error {
						select {
						case started <- struct{}{}:
						default:
						}
						_, err := c.Command(ctx, "PING")
						return err
					})
					if c.Context().Err() != nil {
						require.Error(t, err)
						return
					}
				}
			})
		}
		<-started
		c.Close()
		c.Close()
		calls.Wait()
	}
}
