// Package identity holds who a node of the QUIC transport is and whom it trusts: its certificate,
// the authorities, and their renewal from the files.
package identity

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"math/big"
	"net"
	"strings"
	"time"

	"github.com/mooncake-go/mooncake/plugins/transport-quic/internal/config"
	"github.com/mooncake-go/mooncake/plugins/transport-quic/internal/wire"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/security"
)

// Identity is who this node is and whom it trusts, as of one look at the files. It does not change;
// a later look makes another one.
type Identity struct {
	Cert tls.Certificate
	Leaf *x509.Certificate
	Pin  wire.Fingerprint // of Leaf
	set  *security.Set    // nil with insecure_dev
}

// files are those of the configuration.
func files(cfg *config.Config) security.Files {
	return security.Files{CA: cfg.CA, Cert: cfg.Cert, Key: cfg.Key, Of: "transport/quic"}
}

// Insecure reports whether the node runs with insecure_dev.
func (id *Identity) Insecure() bool { return id.set == nil }

// Load reads the files of cfg, or makes a certificate with insecure_dev. Beside the error of a certificate that
// peers would refuse it returns the identity.
func Load(cfg *config.Config, now time.Time) (*Identity, error) {
	if cfg.InsecureDev {
		return Ephemeral(now)
	}
	set, err := files(cfg).Load(now, security.AsServer, security.AsClient)
	if set == nil || set.Leaf == nil {
		return nil, err
	}
	id := &Identity{Cert: set.Cert, Leaf: set.Leaf, set: set}
	id.Pin = sha256.Sum256(id.Leaf.Raw)
	return id, err
}

// ForProcess opens the certificates of the process for a node whose settings name none; nil where they do, or
// the process has no security mode.
func ForProcess(cfg *config.Config, host plugin.Host) (*security.Keeper, error) {
	switch mode := security.OfHost(host).Mode; {
	case mode == "" || mode == security.ModeOff:
		return nil, nil
	case cfg.InsecureDev:
		return nil, errs.WithHint(errs.New(errs.InvalidParams, "transport/quic: start", "insecure_dev does not verify peers, and security.mode is %s", mode),
			"remove insecure_dev; the transport then uses the certificates of the process")
	case cfg.CA != "":
		return nil, nil
	}
	k, err := security.OpenFor(host)
	if err != nil {
		return nil, err
	}
	return k, k.CanServe()
}

// Of returns the identity in the certificates of a process.
func Of(s *security.Set) *Identity {
	return &Identity{Cert: s.Cert, Leaf: s.Leaf, Pin: sha256.Sum256(s.Leaf.Raw), set: s}
}

// ErrName says that a certificate is good and not for a peer that is expected.
var ErrName = errors.New("the certificate of the peer is for none of the expected names")

// allowed checks a peer's certificate against peer_names, or, where there are none and a host was
// dialled, against the host.
func allowed(c *x509.Certificate, names []string, dialled string) error {
	if len(names) == 0 {
		if dialled == "" {
			return nil
		}
		names = []string{dialled}
	}
	for _, n := range names {
		if matches(c, n) {
			return nil
		}
	}
	return fmt.Errorf("%w: it is for %s, expected is %s", ErrName, strings.Join(security.NamesOf(c), ", "), strings.Join(names, " or "))
}

// matches reports whether c is for a name, an address, or "*.domain": any one label below domain.
func matches(c *x509.Certificate, name string) bool {
	domain, wild := strings.CutPrefix(name, "*.")
	if !wild {
		return c.VerifyHostname(name) == nil
	}
	for _, n := range c.DNSNames {
		if _, rest, ok := strings.Cut(n, "."); ok && strings.EqualFold(strings.TrimSuffix(rest, "."), domain) {
			return true
		}
	}
	return false
}

// hostOf returns the host of host:port.
func hostOf(addr string) string {
	h, _, err := net.SplitHostPort(addr)
	if err != nil {
		return addr
	}
	return h
}

// Ephemeral makes the identity of a node with insecure_dev: a certificate that lives with the
// process. Peers find it by its fingerprint in the endpoint, so a process that can forge an
// endpoint can pose as the node.
func Ephemeral(now time.Time) (*Identity, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: "mooncake insecure_dev"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.AddDate(10, 0, 0),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	leaf, err := x509.ParseCertificate(raw)
	if err != nil {
		return nil, err
	}
	id := &Identity{Cert: tls.Certificate{Certificate: [][]byte{raw}, PrivateKey: key, Leaf: leaf}, Leaf: leaf}
	id.Pin = sha256.Sum256(raw)
	return id, nil
}
