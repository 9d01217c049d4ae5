package lean

import (
	"context"
	"io"
	"net"
	"sync/atomic"
	"time"

	"github.com/mooncake-go/mooncake/sdk/security"
)

// holdConnect bounds the connect of Hold.
const holdConnect = time.Second

// Hold connects to a server with dial, nil for TCP, and returns nil when the connection has ended, or the error of
// an attempt that failed. So the caller learns at once that a server has died. When ctx ends, Hold returns its error.
func Hold(ctx context.Context, addr string, dial func(ctx context.Context, addr string) (net.Conn, error)) error {
	if dial == nil {
		dial = DialTCP
	}
	for {
		if again, err := hold(ctx, addr, dial); !again {
			return err
		}
	}
}

// hold holds one connection. It reports whether another one is to follow, as the certificates of this one end.
func hold(ctx context.Context, addr string, dial func(ctx context.Context, addr string) (net.Conn, error)) (again bool, err error) {
	connect, cancel := context.WithTimeout(ctx, holdConnect)
	defer cancel()
	conn, err := dial(connect, addr)
	if err != nil {
		return false, err
	}
	defer conn.Close() //nolint:errcheck // Nothing is in flight.
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	var left atomic.Bool
	security.OnLeave(conn, func() {
		left.Store(true)
		_ = conn.Close()
	})
	if _, err := io.WriteString(conn, preface); err == nil {
		_, _ = io.Copy(io.Discard, conn) // The end is what it waits for.
	}
	return left.Load() && ctx.Err() == nil, ctx.Err()
}
