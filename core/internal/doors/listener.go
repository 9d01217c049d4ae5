package doors

import (
	"container/list"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/internal/access"
	"github.com/mooncake-go/mooncake/core/internal/foreign"
	"github.com/mooncake-go/mooncake/sdk/security"
)

// mostHandshakes bounds the connections of one door that are in a handshake or wait for Accept. A further
// one closes the oldest, so that hanging peers, however many, do not keep others out.
const mostHandshakes = 256

// listener returns connections whose handshake is over.
type listener struct {
	net.Listener
	of   *Doors
	door config.Door
	tls  *tls.Config

	ready  chan accepted
	closed chan struct{}
	over   chan struct{} // closed by the end of accept
	err    error         // of accept, once over
	work   sync.WaitGroup

	mu     sync.Mutex
	ending bool
	young  *list.List // of net.Conn: handshakes in progress, the oldest first
}

type accepted struct {
	conn net.Conn
	err  error
}

func (d *Doors) listen(ln net.Listener, door config.Door) net.Listener {
	l := &listener{
		Listener: ln, of: d, door: door, tls: d.server(door),
		ready: make(chan accepted), closed: make(chan struct{}), over: make(chan struct{}), young: list.New(),
	}
	go l.accept()
	return l
}

func (l *listener) accept() {
	defer close(l.over)
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			if !temporary(err) || !l.hand(accepted{err: err}) {
				l.err = err
				return
			}
			continue
		}
		if e := l.begin(conn); e != nil {
			l.work.Go(func() { l.finish(conn, e) })
		}
	}
}

// temporary reports an error of Accept after which the listener still works.
func temporary(err error) bool {
	t, ok := err.(interface{ Temporary() bool }) //nolint:errorlint // As net/http does it.
	return ok && t.Temporary()
}

// hand gives something to Accept. It reports whether the listener is open.
func (l *listener) hand(a accepted) bool {
	select {
	case l.ready <- a:
		return true
	case <-l.closed:
		return false
	}
}

// begin notes a new connection, nil for one that it has closed.
func (l *listener) begin(conn net.Conn) *list.Element {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ending {
		_ = conn.Close()
		return nil
	}
	if l.young.Len() >= mostHandshakes {
		oldest, _ := l.young.Remove(l.young.Front()).(net.Conn) //nolint:errcheck // Nothing else is in the list.
		_ = oldest.Close()
		l.of.refuse(l.door, oldest.RemoteAddr(), "crowd", "a connection was closed before its handshake was over: too many begin at once")
	}
	return l.young.PushBack(conn)
}

// finish brings a connection through the handshake and to Accept.
func (l *listener) finish(conn net.Conn, e *list.Element) {
	c, err := l.handshake(conn)
	switch {
	case err != nil:
		_ = conn.Close()
	case !l.hand(accepted{conn: c}):
		_ = c.Close()
	}
	l.mu.Lock()
	l.young.Remove(e) // No effect where it gave way to another one.
	l.mu.Unlock()
}

func (l *listener) handshake(conn net.Conn) (net.Conn, error) {
	if err := conn.SetDeadline(time.Now().Add(security.HandshakeTimeout)); err != nil {
		return nil, err
	}
	first, err := begins(conn)
	if err != nil {
		if errors.Is(err, os.ErrDeadlineExceeded) {
			l.of.refuse(l.door, conn.RemoteAddr(), "timeout", "a connection was closed that was silent for "+security.HandshakeTimeout.String())
		}
		return nil, err // A peer that leaves at once only looks whether the port is open.
	}
	if first[0] != recordHandshake {
		l.turnAway(conn, first)
		return nil, errPlaintext
	}
	began := l.of.keeper.Present()
	c := security.ServerConn(conn, first, l.tls)
	if err := c.Handshake(); err != nil { //nolint:noctx // The deadline bounds it, and Close ends it.
		l.failed(conn, err)
		return nil, err
	}
	l.note(c)
	l.of.keeper.Bound(began, c, func(why error) {
		l.of.refuse(l.door, conn.RemoteAddr(), "ended", "a connection was closed: its certificates are not good any more", slog.Any("error", why))
	})
	return c, conn.SetDeadline(time.Time{})
}

// note tells the server that takes the connection who the peer is, where it has an identity.
func (l *listener) note(c *tls.Conn) {
	if id, err := l.of.keeper.Peer(c.ConnectionState()); err == nil {
		security.WireOf(c).Note(access.NewPeer(id, l.door, c.RemoteAddr()))
	} else if l.of.cfg.DemandsToken(l.door) {
		security.WireOf(c).Note(access.Anonymous(l.door, c.RemoteAddr()))
	}
}

const recordHandshake = 0x16

var errPlaintext = errors.New("it does not use TLS")

// begins reads the first bytes: enough to name the protocol, where the peer has sent so many.
func begins(conn net.Conn) ([]byte, error) {
	first := make([]byte, foreign.Least)
	n, err := conn.Read(first)
	if n == 0 {
		if err == nil {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	return first[:n], nil
}

// alert tells a peer that waits for an answer in its own protocol that this is TLS: its version was not
// understood.
var alert = []byte{0x15, 3, 3, 0, 2, 2, 70}

// turnAway refuses a peer without TLS.
func (l *listener) turnAway(conn net.Conn, first []byte) {
	p := foreign.FromClient(first)
	l.of.refuse(l.door, conn.RemoteAddr(), "plaintext",
		"a connection without TLS was refused: set security.mode "+l.of.cfg.Mode+" and ca, cert and key where it comes from, or name the door in security.plaintext on both sides",
		slog.String("protocol", p.String()), slog.String("security", l.of.cfg.Mode))
	first = foreign.Head(conn, first)
	answer := foreign.Refusal(p, first, "this port takes TLS only")
	if answer == nil {
		answer = alert
	}
	foreign.TurnAway(conn, answer)
}

// failed reports a handshake that failed.
func (l *listener) failed(conn net.Conn, err error) {
	var certificate *tls.CertificateVerificationError
	var op *net.OpError
	reason, text := "handshake", "a peer was refused: the TLS handshake failed"
	switch {
	case errors.Is(err, net.ErrClosed):
		return // By the end of the process, or it gave way to another one, which is reported there.
	case errors.Is(err, os.ErrDeadlineExceeded):
		reason, text = "timeout", "a peer was refused: its TLS handshake took longer than "+security.HandshakeTimeout.String()
	case errors.As(err, &certificate), noCertificate(err):
		reason, text = "certificate", "a peer was refused for its certificate: it needs one of an authority in security.ca, with an identity"
	case errors.As(err, &op) && op.Op == "remote error":
		text = "a peer did not take the certificate of this process"
	case errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET):
		text = "a peer left in the TLS handshake; maybe it does not take the certificate of this process"
	}
	l.of.refuse(l.door, conn.RemoteAddr(), reason, text, slog.Any("error", err))
}

// noCertificate reports the error of crypto/tls, which has no type.
func noCertificate(err error) bool {
	return err.Error() == "tls: client didn't provide a certificate"
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	select {
	case a := <-l.ready:
		return a.conn, a.err
	case <-l.over:
		return nil, l.err
	}
}

// Close implements net.Listener. It ends the handshakes in progress and waits for them.
func (l *listener) Close() error {
	l.mu.Lock()
	if l.ending {
		l.mu.Unlock()
		return l.Listener.Close()
	}
	l.ending = true
	close(l.closed)
	for e := l.young.Front(); e != nil; e = e.Next() {
		_ = e.Value.(net.Conn).Close() //nolint:errcheck,forcetypeassert // Nothing else is in the list.
	}
	l.mu.Unlock()
	err := l.Listener.Close()
	<-l.over
	l.work.Wait()
	return err
}
