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

// Dial connects to the server that Ask probes.
type Dial func(ctx context.Context) (net.Conn, error)

// http2Hello is the preface of an HTTP/2 client, with empty settings. It consists of lines, so
// servers of HTTP/1 and of Redis answer it with an error.
const http2Hello = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"

// serviceReady is the number of upstream's call that asks whether a master is ready. It has no
// arguments and no effect.
const serviceReady = 0x7b81bb56

// Ask finds out which protocol a server speaks. It opens its own connections, one after the
// other: first as a client of HTTP/2; if the server closes that connection, as one of coro_rpc;
// then as one of TLS. The result is Unknown if the server sends nothing or ctx ends first. Ask
// does not change the state of the server.
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

// coroRequest is a request without arguments and with the sequence number 0.
func coroRequest(function uint32) []byte {
	b := make([]byte, 20)
	b[0] = coroMagic
	binary.LittleEndian.PutUint32(b[8:], function)
	return b
}

// exchange sends the first bytes of a client and names the protocol of the answer. closed reports
// whether the server closed the connection without sending a byte.
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

// shakeHands returns TLS if the server begins a handshake, even if the handshake fails.
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
