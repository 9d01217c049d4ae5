package socket

import (
	"crypto/tls"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// plainRecord is the most payload that one record of TLS carries.
	plainRecord = 16 << 10
	// sealedBatch is how many bytes of records are collected before they are sent.
	sealedBatch = 8 * (plainRecord + 64)
)

// Layer is TLS over a connection. Deadlines, options and the end remain those of the connection. What is
// written is paced below TLS, which cannot go on after a write that timed out; a read that timed out may be
// repeated. One goroutine may read and another write at the same time.
type Layer struct {
	conn   net.Conn // below
	tls    *tls.Conn
	in     Source // of conn
	first  []byte // what was read off conn before
	asleep bool   // the reader expects nothing soon

	carried atomic.Uint64 // bytes of records, both directions

	mu sync.Mutex // held while records are sent
	// write sends records over conn, until limit; nil during the handshake, whose deadline is that of conn.
	write func(*net.Buffers, time.Time) error
	limit time.Time
	hold  bool
	out   *records // while hold is set
}

// records collects what TLS sends.
type records struct{ b []byte }

var (
	sealedPool = sync.Pool{New: func() any { return &records{b: make([]byte, 0, sealedBatch+plainRecord)} }}
	plainPool  = sync.Pool{New: func() any { return new([plainRecord]byte) }}
)

// ClientLayer makes the layer of the side that dialled, ServerLayer that of the one that accepted and has
// read first. Handshake is the caller's.
func ClientLayer(conn net.Conn, in Source, cfg *tls.Config) *Layer {
	l := &Layer{conn: conn, in: in}
	l.tls = tls.Client(below{l}, cfg)
	return l
}

// ServerLayer is described at ClientLayer.
func ServerLayer(conn net.Conn, in Source, first []byte, cfg *tls.Config) *Layer {
	l := &Layer{conn: conn, in: in, first: first}
	l.tls = tls.Server(below{l}, cfg)
	return l
}

// Handshake runs until limit.
func (l *Layer) Handshake(limit time.Time) error {
	if err := l.conn.SetDeadline(limit); err != nil {
		return err
	}
	if err := l.tls.Handshake(); err != nil { //nolint:noctx // The deadline bounds it, and Close ends it.
		return err
	}
	return l.conn.SetDeadline(time.Time{})
}

// State describes the connection after the handshake.
func (l *Layer) State() tls.ConnectionState { return l.tls.ConnectionState() }

// Carried returns how many bytes of records the layer has sent and received.
func (l *Layer) Carried() uint64 { return l.carried.Load() }

// Read implements Source.
func (l *Layer) Read(p []byte) (int, error) {
	l.asleep = false
	return l.tls.Read(p)
}

// ReadAsleep implements Source.
func (l *Layer) ReadAsleep(p []byte) (int, error) {
	l.asleep = true
	return l.tls.Read(p)
}

// writeAll seals and consumes bufs.
func (l *Layer) writeAll(bufs *net.Buffers, limit time.Time) error {
	l.mu.Lock()
	l.limit, l.hold, l.out = limit, true, sealedPool.Get().(*records)
	l.mu.Unlock()
	err := l.seal(*bufs)
	*bufs = (*bufs)[len(*bufs):]
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil {
		err = l.flush()
	}
	l.out.b = l.out.b[:0]
	sealedPool.Put(l.out)
	l.hold, l.out = false, nil
	return err
}

// seal makes records of bufs, whole ones but for the last. Only what shares a record with other buffers is
// copied for it.
func (l *Layer) seal(bufs net.Buffers) error {
	plain := plainPool.Get().(*[plainRecord]byte)
	defer plainPool.Put(plain)
	n := 0
	for _, b := range bufs {
		for len(b) > 0 {
			if n == 0 && len(b) >= plainRecord {
				whole := len(b) &^ (plainRecord - 1)
				if _, err := l.tls.Write(b[:whole]); err != nil {
					return err
				}
				b = b[whole:]
				continue
			}
			k := copy(plain[n:], b)
			if n, b = n+k, b[k:]; n < plainRecord {
				continue
			}
			if _, err := l.tls.Write(plain[:]); err != nil {
				return err
			}
			n = 0
		}
	}
	if n == 0 {
		return nil
	}
	_, err := l.tls.Write(plain[:n])
	return err
}

// flush sends the collected records. The caller holds mu.
func (l *Layer) flush() error {
	if len(l.out.b) == 0 {
		return nil
	}
	err := l.send(l.out.b)
	l.out.b = l.out.b[:0]
	return err
}

// send sends records. The caller holds mu.
func (l *Layer) send(b []byte) error {
	l.carried.Add(uint64(len(b)))
	if l.write == nil {
		_, err := l.conn.Write(b)
		return err
	}
	bufs := net.Buffers{b}
	return l.write(&bufs, l.limit)
}

// below is the connection as TLS sees it.
type below struct{ l *Layer }

// Read implements net.Conn.
func (c below) Read(p []byte) (n int, err error) {
	l := c.l
	switch {
	case len(l.first) > 0:
		n = copy(p, l.first)
		l.first = l.first[n:]
	case l.asleep:
		n, err = l.in.ReadAsleep(p)
	default:
		n, err = l.in.Read(p)
	}
	l.carried.Add(uint64(max(n, 0)))
	return n, err
}

// Write implements net.Conn. The reader calls it too, for what TLS answers by itself.
func (c below) Write(p []byte) (int, error) {
	l := c.l
	l.mu.Lock()
	defer l.mu.Unlock()
	var err error
	if !l.hold {
		err = l.send(p)
	} else if l.out.b = append(l.out.b, p...); len(l.out.b) >= sealedBatch {
		err = l.flush()
	}
	if err != nil {
		return 0, err
	}
	return len(p), nil
}

func (c below) Close() error                       { return c.l.conn.Close() }
func (c below) LocalAddr() net.Addr                { return c.l.conn.LocalAddr() }
func (c below) RemoteAddr() net.Addr               { return c.l.conn.RemoteAddr() }
func (c below) SetDeadline(t time.Time) error      { return c.l.conn.SetDeadline(t) }
func (c below) SetReadDeadline(t time.Time) error  { return c.l.conn.SetReadDeadline(t) }
func (c below) SetWriteDeadline(t time.Time) error { return c.l.conn.SetWriteDeadline(t) }
