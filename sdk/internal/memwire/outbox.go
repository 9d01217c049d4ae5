package memwire

import (
	"context"

	"github.com/mooncake-go/mooncake/sdk/x/shm"
)

// Outbox sends messages with descriptors, one at a time.
type Outbox struct {
	conn *shm.Conn
	turn chan struct{}
}

// NewOutbox returns an outbox over a socket, which the caller owns.
func NewOutbox(conn *shm.Conn) *Outbox {
	d := &Outbox{conn: conn, turn: make(chan struct{}, 1)}
	d.turn <- struct{}{}
	return d
}

// Send sends descriptors under a token. If the plugin does not read, Send blocks until the context
// ends.
func (d *Outbox) Send(ctx context.Context, token uint64, fds ...int) error {
	select {
	case <-d.turn:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { d.turn <- struct{}{} }()
	return d.conn.Send(ctx, EncodeMessage(token), fds...)
}
