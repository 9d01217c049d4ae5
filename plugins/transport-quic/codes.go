package quic

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/x509"
	"errors"
	"net"

	"github.com/mooncake-go/mooncake/plugins/transport-quic/internal/identity"
	"github.com/mooncake-go/mooncake/plugins/transport-quic/internal/wire"
	quicgo "github.com/quic-go/quic-go"
)

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

// closedFor returns why the peer closed a connection in the words of this protocol, wire.ReasonNone
// where err says nothing of the kind.
func closedFor(err error) wire.Reason {
	var app *quicgo.ApplicationError
	if errors.As(err, &app) && app.Remote && app.ErrorCode > 0 && app.ErrorCode < quicgo.ApplicationErrorCode(wire.NumReasons) {
		return wire.Reason(app.ErrorCode)
	}
	return wire.ReasonNone
}

// distrust reports whether a TLS handshake failed: this side refused the peer's certificate, or the
// peer this side's.
func distrust(err error) bool {
	var t *quicgo.TransportError
	return errors.Is(err, identity.ErrName) || errors.Is(err, identity.ErrMixed) || errors.As(err, &t) && t.ErrorCode.IsCryptoError()
}

const meansDistrust = "the two nodes do not accept each other's certificates"

const hintDistrust = "both nodes need certificates of one authority, that have not ended, for the names or addresses by which they are dialled " +
	"(or peer_names); 'mooncake certs show FILE' tells what a file holds"

// errStale marks an answer of another incarnation.
var errStale = errors.New("the peer was restarted")

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
