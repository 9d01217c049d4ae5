package quic

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/x509"
	"errors"
	"maps"
	"net"
	"slices"
	"time"

	"github.com/mooncake-go/mooncake/plugins/transport-quic/internal/identity"
	"github.com/mooncake-go/mooncake/plugins/transport-quic/internal/wire"
	quicgo "github.com/quic-go/quic-go"
)

// connection is an open connection of either direction.
type openConn struct {
	quic    *quicgo.Conn
	dialled bool
}

// connections lists the open connections of both directions.
func (n *node) connections() []openConn {
	n.mu.Lock()
	var out []openConn
	for c := range n.conns {
		out = append(out, openConn{quic: c.quic})
	}
	paths := slices.Collect(maps.Keys(n.paths))
	n.mu.Unlock()
	for _, p := range paths {
		p.mu.Lock()
		for _, l := range p.conns {
			if l.up {
				out = append(out, openConn{quic: l.quic, dialled: true})
			}
		}
		p.mu.Unlock()
	}
	return out
}

// code is a reason as QUIC carries it.
func code(r wire.Reason) quicgo.ApplicationErrorCode { return quicgo.ApplicationErrorCode(r) }

func streamCode(r wire.Reason) quicgo.StreamErrorCode { return quicgo.StreamErrorCode(r) }

// datagramOverhead is what a packet has besides the payload of a frame: header, checksum, frame.
const datagramOverhead = 1 + 4 + 4 + 16 + 3

// datagramSize tells how large the packets of a connection may be by now. quic-go says so only to a
// caller that tries to send a message that no packet can hold.
func datagramSize(c *quicgo.Conn) int {
	var tooLarge *quicgo.DatagramTooLargeError
	if errors.As(c.SendDatagram(noMessage[:]), &tooLarge) {
		return int(tooLarge.MaxDatagramPayloadSize) + datagramOverhead
	}
	return 0
}

var noMessage [64 << 10]byte

// resetKey is what tells peers of a process that was killed that its successor on the same port
// does not know their connections: made from the private key, so that the successor has it too, and
// from the port, so that two processes with one certificate do not.
func resetKey(id *identity.Identity, at net.Addr) (*quicgo.StatelessResetKey, error) {
	secret, err := x509.MarshalPKCS8PrivateKey(id.Cert.PrivateKey)
	if err != nil {
		return nil, err
	}
	h := hmac.New(sha256.New, secret)
	h.Write([]byte("mooncake quic stateless reset " + at.String()))
	key := quicgo.StatelessResetKey(h.Sum(nil))
	return &key, nil
}

// closedFor returns why the peer closed a connection in the words of this protocol, wire.ReasonNone
// where err says nothing of the kind.
func closedFor(err error) wire.Reason {
	var app *quicgo.ApplicationError
	if errors.As(err, &app) && app.Remote && app.ErrorCode > 0 && app.ErrorCode < quicgo.ApplicationErrorCode(wire.NumReasons) {
		return wire.Reason(app.ErrorCode)
	}
	return wire.ReasonNone
}

// watch looks at the files until stop, and at the peers of all connections.
func (n *node) watch(stop <-chan struct{}) {
	defer n.serving.Done()
	tick := time.NewTicker(n.cfg.ReloadEvery)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return
		case <-tick.C:
			n.revise(n.trust.Look())
		}
	}
}

// revise closes the connections whose peers would not be let in any more: those whose certificate
// has ended, and, where the authorities changed, all that they do not cover.
func (n *node) revise(changed bool) {
	id, now := n.trust.Now(), n.clock()
	if id.Insecure() {
		return
	}
	for _, c := range n.connections() {
		state := c.quic.ConnectionState().TLS
		if len(state.PeerCertificates) == 0 {
			continue
		}
		leaf := state.PeerCertificates[0]
		if !now.After(leaf.NotAfter) && (!changed || id.Verify(state, c.dialled, now) == nil) {
			continue
		}
		n.stats.untrusted.Add(1)
		n.log.Warn("closing a connection whose peer is not trusted any more", "peer", c.quic.RemoteAddr().String(), "names", identity.NamesOf(leaf), "ends", leaf.NotAfter)
		_ = c.quic.CloseWithError(code(wire.ReasonTrust), wire.ReasonTrust.Info().Label)
	}
}
