package lean

import (
	"context"
	"io"
	"net"
	"time"
)

// holdConnect bounds the connect of Hold.
const holdConnect = time.Second

// Hold connects to a server with dial, nil for TCP, and returns nil when the connection has ended, or the error of
// an attempt that failed. So the caller learns at once that a server has died. When ctx ends, Hold returns its error.
func Hold(ctx context.Context, addr string, dial func(ctx context.Context, addr string) (net.Conn, error)) error {
	if dial == nil {
		dial = DialTCP
	}
	connect, cancel := context.WithTimeout(ctx, holdConnect)
	defer cancel()
	conn, err := dial(connect, addr)
	if err != nil {
		return err
	}
	defer conn.Close() //nolint:errcheck // Nothing is in flight.
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	if _, err := io.WriteString(conn, preface); err == nil {
		_, _ = io.Copy(io.Discard, conn) // The end is what it waits for.
	}
	return ctx.Err()
}
