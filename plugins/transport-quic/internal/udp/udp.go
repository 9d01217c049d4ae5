// Package udp holds the sockets of the QUIC transport.
package udp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"syscall"

	"golang.org/x/net/ipv4"
)

// Buffers are the sizes that a socket has, in bytes, as the kernel counts them.
type Buffers struct{ Receive, Send int }

// Tune asks for socket buffers of size bytes each and returns what the kernel granted.
func Tune(c *net.UDPConn, size int) (Buffers, error) {
	if size > 0 {
		if err := errors.Join(c.SetReadBuffer(size), c.SetWriteBuffer(size)); err != nil {
			return Buffers{}, err
		}
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return Buffers{}, err
	}
	var b Buffers
	var err1, err2 error
	err = raw.Control(func(fd uintptr) {
		b.Receive, err1 = syscall.GetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF)
		b.Send, err2 = syscall.GetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_SNDBUF)
	})
	// The kernel doubles what was asked for, for its own bookkeeping, and says so.
	b.Receive, b.Send = b.Receive/2, b.Send/2
	return b, errors.Join(err, err1, err2)
}

// Hint is the command that raises the bounds of the kernel to size.
func Hint(size int) string {
	return fmt.Sprintf("sudo sysctl -w net.core.rmem_max=%d net.core.wmem_max=%d", size, size)
}

// mostRefusals is how many refusals in a row, without a packet in between, end the use of a socket
// that had been answered before. A single one may be forged.
const mostRefusals = 3

// Connected is a socket that is connected to one peer, so that the kernel tells when the peer's
// port is closed. QUIC itself would notice by the silence alone.
type Connected struct {
	*net.UDPConn
	batch    *ipv4.PacketConn
	heard    atomic.Bool
	refusals atomic.Int32
}

// Connect returns a socket that is connected to addr.
func Connect(ctx context.Context, addr string) (*Connected, error) {
	c, err := new(net.Dialer).DialContext(ctx, "udp", addr)
	if err != nil {
		return nil, err
	}
	u := c.(*net.UDPConn)
	return &Connected{UDPConn: u, batch: ipv4.NewPacketConn(u)}, nil
}

// ReadBatch is what quic-go reads with.
func (l *Connected) ReadBatch(ms []ipv4.Message, flags int) (int, error) {
	for {
		n, err := l.batch.ReadBatch(ms, flags)
		if err == nil {
			l.heard.Store(true)
			l.refusals.Store(0)
			return n, nil
		}
		if !l.tolerable(err) {
			return n, err
		}
	}
}

// WriteMsgUDP leaves out the address: a connected socket refuses it.
func (l *Connected) WriteMsgUDP(b, oob []byte, _ *net.UDPAddr) (n, oobn int, err error) {
	n, oobn, err = l.UDPConn.WriteMsgUDP(b, oob, nil)
	if err != nil && l.tolerable(err) {
		return len(b), len(oob), nil // Lost, as any packet may be.
	}
	return n, oobn, err
}

// WriteTo is WriteMsgUDP for the few packets that quic-go sends in this way.
func (l *Connected) WriteTo(b []byte, _ net.Addr) (int, error) {
	n, _, err := l.WriteMsgUDP(b, nil, nil)
	return n, err
}

// tolerable reports whether a call may be repeated: the peer's machine said that no process has the
// port, and the peer was heard not long ago.
func (l *Connected) tolerable(err error) bool {
	return errors.Is(err, syscall.ECONNREFUSED) && l.heard.Load() && l.refusals.Add(1) < mostRefusals
}
