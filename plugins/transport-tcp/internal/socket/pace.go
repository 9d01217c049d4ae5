// Package socket reads and writes the connections of the TCP transport, and measures how far their
// bytes have come.
package socket

import (
	"errors"
	"net"
	"os"
	"sync/atomic"
	"time"

	"github.com/mooncake-go/mooncake/sdk/x/samehost"
)

// NewPacer returns a pacer that counts its calls in reads and writes. in is nil for one that only
// writes.
func NewPacer(conn net.Conn, in Source, stall time.Duration, g *Gauge, reads, writes *atomic.Uint64) Pacer {
	return Pacer{conn: conn, In: in, stall: stall, gauge: g, reads: reads, writes: writes}
}

// Pacer reads and writes a connection so that no call waits longer without progress than its gauge
// allows. One goroutine may read and another write at the same time.
type Pacer struct {
	conn          net.Conn
	In            Source
	stall         time.Duration  // see gauge.stall
	reads, writes *atomic.Uint64 // count the calls
	gauge         *Gauge         // of conn; nil where only what a call moved counts
	layer         *Layer         // over conn; nil for none

	ReadBy, writeBy time.Time // deadlines that are set now
	writtenAt       Mark      // of the gauge, when writeBy was set
}

// Secure has the pacer read and write through TLS. A nil layer changes nothing.
func (p *Pacer) Secure(l *Layer) {
	if l == nil {
		return
	}
	if p.layer = l; p.In != nil {
		p.In = l
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.write = p.writeAll
}

// near reports whether a deadline that is set is close enough to the wanted one, which saves most
// calls that would only move it a little.
func (p *Pacer) near(set, want time.Time) bool {
	return !set.After(want) && set.After(want.Add(-p.stall/8))
}

// ReadFull fills b. It fails when stall passes without a byte, and at limit, if any.
func (p *Pacer) ReadFull(b []byte, limit time.Time) error {
	for len(b) > 0 {
		if by := p.by(limit); !p.near(p.ReadBy, by) {
			if err := p.conn.SetReadDeadline(by); err != nil {
				return err
			}
			p.ReadBy = by
		}
		p.reads.Add(1)
		n, err := p.In.Read(b)
		b = b[n:]
		if err != nil && len(b) > 0 && !goOn(n > 0, err, limit) {
			return err
		}
	}
	return nil
}

// WriteAll writes and consumes bufs. It fails when stall passes without a byte, and at limit, if
// any. After it returned nothing refers to the buffers any more.
func (p *Pacer) WriteAll(bufs *net.Buffers, limit time.Time) error {
	if p.layer != nil {
		return p.layer.writeAll(bufs, limit)
	}
	return p.writeAll(bufs, limit)
}

func (p *Pacer) writeAll(bufs *net.Buffers, limit time.Time) error {
	for {
		if by := p.by(limit); !p.near(p.writeBy, by) {
			if err := p.conn.SetWriteDeadline(by); err != nil {
				return err
			}
			p.writeBy = by
			if p.gauge != nil {
				p.writtenAt.Set(p.gauge)
			}
		}
		p.writes.Add(1)
		n, err := writeVec(p.conn, bufs)
		if err == nil {
			return nil
		}
		// What earlier calls wrote may still reach the peer while the kernel takes nothing new.
		if !goOn(n > 0 || p.gauge != nil && p.writtenAt.Passed(p.gauge), err, limit) {
			return err
		}
	}
}

func (p *Pacer) by(limit time.Time) time.Time {
	by := time.Now().Add(p.gauge.Stall(p.stall))
	if !limit.IsZero() && limit.Before(by) {
		return limit
	}
	return by
}

// goOn reports whether err is a deadline that came although there was progress.
func goOn(progress bool, err error, limit time.Time) bool {
	return progress && errors.Is(err, os.ErrDeadlineExceeded) && (limit.IsZero() || time.Now().Before(limit))
}

// LocalSendBuffer is the send buffer of a connection within one machine. There the kernel would let
// megabytes wait between the two ends, which by then have left the caches of the processor; nothing
// is on the way that a larger buffer would be needed for.
const LocalSendBuffer = 512 << 10

// TCP is a connection over TCP: a *net.TCPConn or a *busypoll.Conn.
type TCP interface {
	net.Conn
	SetReadBuffer(bytes int) error
	SetWriteBuffer(bytes int) error
	CloseWrite() error
}

// Tune sets the options of a connection: the sizes of its buffers, where they are not 0.
// TCP_NODELAY is on already; Go does it.
func Tune(c net.Conn, send, receive int) error {
	t, ok := c.(TCP)
	if !ok {
		return nil
	}
	samehost.Tune(t)
	if send == 0 && samehost.Is(t) {
		send = LocalSendBuffer
	}
	if send > 0 {
		if err := t.SetWriteBuffer(send); err != nil {
			return err
		}
	}
	if receive > 0 {
		return t.SetReadBuffer(receive)
	}
	return nil
}
