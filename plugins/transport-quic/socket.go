package quic

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"syscall"

	"golang.org/x/net/ipv4"
)

// buffers are the sizes that a socket has, in bytes, as the kernel counts them.
type buffers struct{ receive, send int }

// tune asks for socket buffers of size bytes each and returns what the kernel granted.
func tune(c *net.UDPConn, size int) (buffers, error) {
	if size > 0 {
		if err := errors.Join(c.SetReadBuffer(size), c.SetWriteBuffer(size)); err != nil {
			return buffers{}, err
		}
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return buffers{}, err
	}
	var b buffers
	var err1, err2 error
	err = raw.Control(func(fd uintptr) {
		b.receive, err1 = syscall.GetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF)
		b.send, err2 = syscall.GetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_SNDBUF)
	})
	// The kernel doubles what was asked for, for its own bookkeeping, and says so.
	b.receive, b.send = b.receive/2, b.send/2
	return b, errors.Join(err, err1, err2)
}

// hintBuffers is the command that raises the bounds of the kernel to size.
func hintBuffers(size int) string {
	return fmt.Sprintf("sudo sysctl -w net.core.rmem_max=%d net.core.wmem_max=%d", size, size)
}

// mostRefusals is how many refusals in a row, without a packet in between, end the use of
// a socket that had been answered before. A single one may be forged.
const mostRefusals = 3

// linked is a socket that is connected to one peer, so that the kernel tells when the
// peer's port is closed. QUIC itself would notice by the silence alone.
type linked struct {
	*net.UDPConn
	batch    *ipv4.PacketConn
	heard    atomic.Bool
	refusals atomic.Int32
}

func link(ctx context.Context, addr string) (*linked, error) {
	c, err := new(net.Dialer).DialContext(ctx, "udp", addr)
	if err != nil {
		return nil, err
	}
	u := c.(*net.UDPConn)
	return &linked{UDPConn: u, batch: ipv4.NewPacketConn(u)}, nil
}

// ReadBatch is what quic-go reads with.
func (l *linked) ReadBatch(ms []ipv4.Message, flags int) (int, error) {
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
func (l *linked) WriteMsgUDP(b, oob []byte, _ *net.UDPAddr) (n, oobn int, err error) {
	n, oobn, err = l.UDPConn.WriteMsgUDP(b, oob, nil)
	if err != nil && l.tolerable(err) {
		return len(b), len(oob), nil // Lost, as any packet may be.
	}
	return n, oobn, err
}

// WriteTo is WriteMsgUDP for the few packets that quic-go sends in this way.
func (l *linked) WriteTo(b []byte, _ net.Addr) (int, error) {
	n, _, err := l.WriteMsgUDP(b, nil, nil)
	return n, err
}

// tolerable reports whether a call may be repeated: the peer's machine said that nobody has
// the port, and the peer was heard not long ago.
func (l *linked) tolerable(err error) bool {
	return errors.Is(err, syscall.ECONNREFUSED) && l.heard.Load() && l.refusals.Add(1) < mostRefusals
}
