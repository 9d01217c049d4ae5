package quic

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/x509"
	"errors"
	"maps"
	"net"
	"slices"

	quicgo "github.com/quic-go/quic-go"
)

// connection is an open connection of either direction.
type connection struct {
	quic    *quicgo.Conn
	dialled bool
}

// connections lists the open connections of both directions.
func (n *node) connections() []connection {
	n.mu.Lock()
	var out []connection
	for c := range n.conns {
		out = append(out, connection{quic: c.quic})
	}
	paths := slices.Collect(maps.Keys(n.paths))
	n.mu.Unlock()
	for _, p := range paths {
		p.mu.Lock()
		for _, l := range p.lanes {
			if l.up {
				out = append(out, connection{quic: l.quic, dialled: true})
			}
		}
		p.mu.Unlock()
	}
	return out
}

// code is a reason as QUIC carries it.
func code(r reason) quicgo.ApplicationErrorCode { return quicgo.ApplicationErrorCode(r) }

func streamCode(r reason) quicgo.StreamErrorCode { return quicgo.StreamErrorCode(r) }

// datagramOverhead is what a packet has besides the payload of a frame: header, sum, frame.
const datagramOverhead = 1 + 4 + 4 + 16 + 3

// datagramSize tells how large the packets of a connection may be by now. quic-go says so
// only to who tries to send a message that no packet can hold.
func datagramSize(c *quicgo.Conn) int {
	var tooLarge *quicgo.DatagramTooLargeError
	if errors.As(c.SendDatagram(noMessage[:]), &tooLarge) {
		return int(tooLarge.MaxDatagramPayloadSize) + datagramOverhead
	}
	return 0
}

var noMessage [64 << 10]byte

// resetKey is what tells peers of a process that was killed that its successor on the same
// port does not know their connections: made from the private key, so that the successor has it too, and
// from the port, so that two processes with one certificate do not.
func resetKey(id *identity, at net.Addr) (*quicgo.StatelessResetKey, error) {
	secret, err := x509.MarshalPKCS8PrivateKey(id.cert.PrivateKey)
	if err != nil {
		return nil, err
	}
	h := hmac.New(sha256.New, secret)
	h.Write([]byte("mooncake quic stateless reset " + at.String()))
	key := quicgo.StatelessResetKey(h.Sum(nil))
	return &key, nil
}
