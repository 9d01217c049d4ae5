package handshake

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"
)

// The bytes of the lifeline: the TCP connection of a handshake between our own nodes, which stays
// open. The side that made the connection says EndOfWork when it gives the connection up. The other
// side answers with the reason for its end, after its queue pairs are destroyed.
const (
	EndOfWork   = 'E'
	EndAnswered = 'q'
	EndStopping = 's'
	EndDevice   = 'd'
	EndUnproven = 'x' // A queue pair could not be destroyed.
)

// KeepAlive makes a lifeline notice within half a minute that the other machine is gone.
func KeepAlive() net.KeepAliveConfig {
	return net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3}
}

// Dial connects to the first address that answers. The addresses share the time that is left.
func Dial(ctx context.Context, addrs []string) (net.Conn, error) {
	d := net.Dialer{KeepAliveConfig: KeepAlive()}
	err := errors.New("no address of the peer is known")
	for i, a := range addrs {
		share := ctx
		if at, ok := ctx.Deadline(); ok {
			var cancel context.CancelFunc
			share, cancel = context.WithTimeout(ctx, time.Until(at)/time.Duration(len(addrs)-i))
			defer cancel()
		}
		var nc net.Conn
		if nc, err = d.DialContext(share, "tcp", a); err == nil {
			return nc, nil
		}
	}
	return nil, err
}

// Ask sends a request and reads the answer.
func Ask(ctx context.Context, nc net.Conn, m *Message) (*Message, error) {
	text, err := m.Encode()
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = nc.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if err := WriteFrame(nc, TypeConnection, text); err != nil {
		return nil, err
	}
	_, answer, err := ReadFrame(nc, MaxFrame)
	if err != nil {
		if ctx.Err() != nil {
			err = fmt.Errorf("the peer does not answer: %w", ctx.Err())
		}
		return nil, err
	}
	if !stop() {
		return nil, ctx.Err()
	}
	return Decode(answer)
}
