package identity

import (
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"

	"github.com/mooncake-go/mooncake/plugins/transport-quic/internal/wire"
)

// Server is the configuration of the listener: each handshake sees the identity of that moment.
func (t *Keeper) Server() *tls.Config {
	c := t.base()
	c.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		id := t.Now()
		c := t.base()
		c.Certificates = []tls.Certificate{id.Cert}
		if id.roots == nil {
			c.ClientAuth = tls.RequireAnyClientCert
			return c, nil
		}
		c.ClientAuth, c.ClientCAs = tls.RequireAndVerifyClientCert, id.roots
		c.VerifyConnection = func(s tls.ConnectionState) error {
			return allowed(s.PeerCertificates[0], t.Config.PeerNames, "")
		}
		return c, nil
	}
	return c
}

// ErrMixed says that no certificate would be accepted.
var ErrMixed = errors.New("one of the two nodes runs with insecure_dev")

// ErrPin says that another process answers than the one whose endpoint was dialled.
var ErrPin = errors.New("the certificate is not the one of the endpoint")

// Client is the configuration for one connection to addr, which is of peer.
func (t *Keeper) Client(peer *wire.Endpoint, addr string) (*tls.Config, error) {
	id := t.Now()
	c := t.base()
	c.Certificates = []tls.Certificate{id.Cert}
	host := hostOf(addr)
	c.ServerName = host
	switch insecure := peer.Pin != (wire.Fingerprint{}); {
	case insecure && id.roots != nil:
		return nil, fmt.Errorf("%w: the peer does, this node does not", ErrMixed)
	case !insecure && id.roots == nil:
		return nil, fmt.Errorf("%w: this node does, the peer does not", ErrMixed)
	case insecure:
		c.InsecureSkipVerify = true // VerifyConnection compares the whole certificate.
		pin := peer.Pin
		c.VerifyConnection = func(s tls.ConnectionState) error {
			if sha256.Sum256(s.PeerCertificates[0].Raw) != pin {
				return ErrPin
			}
			return nil
		}
		return c, nil
	}
	c.RootCAs = id.roots
	if len(t.Config.PeerNames) > 0 {
		// A peer that peer_names allow may answer anywhere; crypto/tls cannot check one of several names.
		c.InsecureSkipVerify = true
		c.VerifyConnection = func(s tls.ConnectionState) error {
			if err := id.Verify(s, true, t.Clock()); err != nil {
				return err
			}
			return allowed(s.PeerCertificates[0], t.Config.PeerNames, host)
		}
	}
	return c, nil
}

func (t *Keeper) base() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13, NextProtos: []string{wire.ALPN}, Time: t.Clock,
		SessionTicketsDisabled: true, // A peer that connects again shows its certificate again.
	}
}
