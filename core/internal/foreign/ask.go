package foreign

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"time"
)

// Dial connects to the server that is asked.
type Dial func(ctx context.Context) (net.Conn, error)

// http2Hello is the beginning of a client of HTTP/2, with no settings. Servers of HTTP/1 and
// of Redis answer it with an error, as it has lines.
const http2Hello = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"

// serviceReady is the number of upstream's call that asks a master whether it serves. It has
// no arguments and no effect.
const serviceReady = 0x7b81bb56

// Ask finds out what answers at an address, over connections of its own, one after the other:
// it begins as a client of HTTP/2, where that is hung up on as one of coro_rpc, then as one of
// TLS. It is Unknown where the server says nothing or ctx ends first. It changes nothing at
// the server.
func Ask(ctx context.Context, dial Dial) Protocol {
	p, closed := exchange(ctx, dial, []byte(http2Hello))
	if p != Unknown || !closed {
		return p
	}
	if p, closed = exchange(ctx, dial, coroRequest(serviceReady)); p != Unknown || !closed {
		return p
	}
	return shakeHands(ctx, dial)
}

// coroRequest is a request without arguments, of the call with the number 0.
func coroRequest(function uint32) []byte {
	b := make([]byte, 20)
	b[0] = coroMagic
	binary.LittleEndian.PutUint32(b[8:], function)
	return b
}

// exchange sends the beginning of a client and names what comes back. closed: the server hung
// up without a byte.
func exchange(ctx context.Context, dial Dial, hello []byte) (p Protocol, closed bool) {
	conn, err := dial(ctx)
	if err != nil {
		return Unknown, false
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })()
	if _, err := conn.Write(hello); err != nil {
		return Unknown, !timedOut(err)
	}
	var first [Least]byte
	n, err := io.ReadFull(conn, first[:])
	return FromServer(first[:n]), n == 0 && err != nil && !timedOut(err)
}

// shakeHands is TLS where the server begins a handshake, whatever comes of it.
func shakeHands(ctx context.Context, dial Dial) Protocol {
	conn, err := dial(ctx)
	if err != nil {
		return Unknown
	}
	defer conn.Close()
	err = tls.Client(conn, &tls.Config{InsecureSkipVerify: true}).HandshakeContext(ctx) //nolint:gosec // Nothing is sent inside it.
	var alert tls.AlertError
	if err == nil || errors.As(err, &alert) {
		return TLS
	}
	var refused *net.OpError // crypto/tls gives an alert of the server this form.
	if errors.As(err, &refused) && refused.Op == "remote error" {
		return TLS
	}
	return Unknown
}

func timedOut(err error) bool {
	var late net.Error
	return errors.As(err, &late) && late.Timeout()
}
