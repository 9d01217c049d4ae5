package security

import (
	"crypto/tls"
	"fmt"
	"slices"
	"strings"
)

// ServerFor is Server for a listener that, with ModeMTLS, takes only clients with one of the roles in
// want.
func (k *Keeper) ServerFor(want []Role, protos ...string) *tls.Config {
	c := k.Server(protos...)
	choose := c.GetConfigForClient
	c.GetConfigForClient = func(h *tls.ClientHelloInfo) (*tls.Config, error) {
		c, err := choose(h)
		if err != nil || c.VerifyConnection == nil {
			return c, err
		}
		verify := c.VerifyConnection
		c.VerifyConnection = func(s tls.ConnectionState) error {
			if err := verify(s); err != nil {
				return err
			}
			id, err := k.Peer(s)
			if err == nil && !slices.Contains(want, id.Role) {
				err = &tls.CertificateVerificationError{
					UnverifiedCertificates: s.PeerCertificates,
					Err:                    fmt.Errorf("the client is %s, expected is a %s", id, strings.Join(roleStrings(want), " or ")),
				}
			}
			return err
		}
		return c, nil
	}
	return c
}
