package security

import (
	"crypto/tls"
	"net"
	"syscall"
)

// Wire is the connection below a TLS connection of this package.
type Wire struct {
	net.Conn
	first       []byte // what was read before the handshake
	read, write func([]byte) (int, error)
	noted       any
}

// Divert has TLS read and write what it sends by other functions than those of Conn; nil leaves one
// as it is. It is called before other goroutines use the connection.
func (w *Wire) Divert(read, write func([]byte) (int, error)) {
	if read != nil {
		w.read = read
	}
	if write != nil {
		w.write = write
	}
}

// Note keeps what the accepting side knows of the peer. Call it before other goroutines use the
// connection.
func (w *Wire) Note(peer any) { w.noted = peer }

// Noted returns what was noted, nil for nothing.
func (w *Wire) Noted() any { return w.noted }

// Read implements net.Conn.
func (w *Wire) Read(p []byte) (int, error) {
	switch {
	case len(w.first) > 0:
		n := copy(p, w.first)
		w.first = w.first[n:]
		return n, nil
	case w.read != nil:
		return w.read(p)
	}
	return w.Conn.Read(p)
}

// Write implements net.Conn.
func (w *Wire) Write(p []byte) (int, error) {
	if w.write != nil {
		return w.write(p)
	}
	return w.Conn.Write(p)
}

// WireOf returns the wire of a TLS connection of this package, nil for any other connection.
func WireOf(conn net.Conn) *Wire {
	if c, ok := conn.(*tls.Conn); ok {
		w, _ := c.NetConn().(*Wire)
		return w
	}
	return nil
}

// Below returns the connection below TLS, conn itself where there is none. Its options may be set;
// its bytes belong to TLS.
func Below(conn net.Conn) net.Conn {
	if w := WireOf(conn); w != nil {
		return w.Conn
	}
	return conn
}

// Socket returns the socket of the system that carries a connection, with or without TLS.
func Socket(conn net.Conn) (syscall.Conn, bool) {
	sc, ok := Below(conn).(syscall.Conn)
	return sc, ok
}

// ServerConn makes the server's side of a connection of which first was read already. The handshake is
// the caller's.
func ServerConn(conn net.Conn, first []byte, c *tls.Config) *tls.Conn {
	return tls.Server(&Wire{Conn: conn, first: first}, c)
}
