package quic

import (
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
)

// serverTLS is what the listener uses: each handshake sees the identity of that moment.
func (n *node) serverTLS() *tls.Config {
	c := n.baseTLS()
	c.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		id := n.trust.now()
		c := n.baseTLS()
		c.Certificates = []tls.Certificate{id.cert}
		if id.roots == nil {
			c.ClientAuth = tls.RequireAnyClientCert
			return c, nil
		}
		c.ClientAuth, c.ClientCAs = tls.RequireAndVerifyClientCert, id.roots
		c.VerifyConnection = func(s tls.ConnectionState) error {
			return allowed(s.PeerCertificates[0], n.cfg.PeerNames, "")
		}
		return c, nil
	}
	return c
}

// errMixed says that no certificate would be accepted.
var errMixed = errors.New("one of the two nodes runs with insecure_dev")

// errPin says that another process answers than the one whose endpoint was dialled.
var errPin = errors.New("the certificate is not the one of the endpoint")

// clientTLS is for one connection to addr, which is of peer.
func (n *node) clientTLS(peer *endpoint, addr string) (*tls.Config, error) {
	id := n.trust.now()
	c := n.baseTLS()
	c.Certificates = []tls.Certificate{id.cert}
	host := hostOf(addr)
	c.ServerName = host
	switch insecure := peer.Pin != (fingerprint{}); {
	case insecure && id.roots != nil:
		return nil, fmt.Errorf("%w: the peer does, this node does not", errMixed)
	case !insecure && id.roots == nil:
		return nil, fmt.Errorf("%w: this node does, the peer does not", errMixed)
	case insecure:
		c.InsecureSkipVerify = true // VerifyConnection compares the whole certificate.
		pin := peer.Pin
		c.VerifyConnection = func(s tls.ConnectionState) error {
			if sha256.Sum256(s.PeerCertificates[0].Raw) != pin {
				return errPin
			}
			return nil
		}
		return c, nil
	}
	c.RootCAs = id.roots
	if len(n.cfg.PeerNames) > 0 {
		// Whom peer_names name may answer anywhere; crypto/tls cannot check one of several names.
		c.InsecureSkipVerify = true
		c.VerifyConnection = func(s tls.ConnectionState) error {
			if err := verifyPeer(s, id.roots, true, n.clock()); err != nil {
				return err
			}
			return allowed(s.PeerCertificates[0], n.cfg.PeerNames, host)
		}
	}
	return c, nil
}

func (n *node) baseTLS() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13, NextProtos: []string{alpn}, Time: n.clock,
		SessionTicketsDisabled: true, // Who connects again is asked again.
	}
}
