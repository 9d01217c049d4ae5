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
	"os"
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
	Cert  tls.Certificate
	Leaf  *x509.Certificate
	Pin   wire.Fingerprint // of Leaf
	roots *x509.CertPool   // nil with insecure_dev
	seen  [sha256.Size]byte
}

const hintCerts = "'mooncake certs init DIR' makes an authority, 'mooncake certs issue DIR HOST' a certificate for each node; " +
	"then set ca, cert and key of transport/quic"

func errTrust(hint, format string, args ...any) error {
	return &errs.Error{
		Code: errs.InvalidParams, Class: errs.ClassLocalDevice, Op: "transport/quic: certificates", Err: fmt.Errorf(format, args...), Hint: hint,
	}
}

// Insecure reports whether the node runs with insecure_dev.
func (id *Identity) Insecure() bool { return id.roots == nil }

// Load reads the files of cfg, or makes a certificate with insecure_dev.
func Load(cfg *config.Config, now time.Time) (*Identity, error) {
	if cfg.InsecureDev {
		return Ephemeral(now)
	}
	if cfg.CA == "" {
		return nil, errTrust(hintCerts, "no certificates are configured")
	}
	files, sum, err := readAll(cfg.CA, cfg.Cert, cfg.Key)
	if err != nil {
		return nil, err
	}
	id := &Identity{roots: x509.NewCertPool(), seen: sum}
	if !id.roots.AppendCertsFromPEM(files[0]) {
		return nil, errTrust(hintCerts, "%s: holds no certificate in PEM", cfg.CA)
	}
	if id.Cert, err = tls.X509KeyPair(files[1], files[2]); err != nil {
		return nil, errTrust("cert and key must be PEM files that belong together; see them with 'mooncake certs show FILE'", "%s and %s: %w", cfg.Cert, cfg.Key, err)
	}
	id.Leaf = id.Cert.Leaf
	id.Pin = sha256.Sum256(id.Leaf.Raw)
	return id, id.check(cfg, now)
}

// ForProcess opens the certificates of the process for a node whose settings name none; nil where they do, or
// the process has no security mode.
func ForProcess(cfg *config.Config, host plugin.Host) (*security.Keeper, error) {
	switch mode := security.OfHost(host).Mode; {
	case mode == "" || mode == security.ModeOff:
		return nil, nil
	case cfg.InsecureDev:
		return nil, errTrust("remove insecure_dev; the transport then uses the certificates of the process", "insecure_dev does not verify peers, and security.mode is %s", mode)
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
	return &Identity{Cert: s.Cert, Leaf: s.Leaf, Pin: sha256.Sum256(s.Leaf.Raw), roots: s.Roots, seen: s.Digest}
}

// check finds out what peers would refuse.
func (id *Identity) check(cfg *config.Config, now time.Time) error {
	switch {
	case now.After(id.Leaf.NotAfter):
		return errTrust("make a new one: 'mooncake certs renew "+cfg.Cert+"'", "%s: the certificate ended at %s", cfg.Cert, id.Leaf.NotAfter.UTC().Format(time.RFC3339))
	case now.Before(id.Leaf.NotBefore):
		return errTrust("see whether the clock of this machine is right", "%s: the certificate begins at %s", cfg.Cert, id.Leaf.NotBefore.UTC().Format(time.RFC3339))
	}
	for usage, name := range map[x509.ExtKeyUsage]string{x509.ExtKeyUsageServerAuth: "server", x509.ExtKeyUsageClientAuth: "client"} {
		if err := verifyChain(id.Cert.Certificate, id.roots, usage, now); err != nil {
			return errTrust("it must be signed by the authority of ca, for use as server and as client", "%s: peers will not accept it as a %s's: %w", cfg.Cert, name, err)
		}
	}
	return nil
}

// readAll reads the files and computes a checksum over all of them.
func readAll(paths ...string) ([][]byte, [sha256.Size]byte, error) {
	const most = 1 << 20
	all := sha256.New()
	var out [][]byte
	for _, p := range paths {
		info, err := os.Stat(p)
		if err == nil && (info.IsDir() || info.Size() > most) {
			err = errors.New("not a file of at most 1 MiB")
		}
		var b []byte
		if err == nil {
			b, err = os.ReadFile(p)
		}
		if err != nil {
			return nil, [sha256.Size]byte{}, errTrust(hintCerts, "cannot read %s: %w", p, err)
		}
		fmt.Fprintf(all, "%d:", len(b))
		all.Write(b)
		out = append(out, b)
	}
	return out, [sha256.Size]byte(all.Sum(nil)), nil
}

// verifyChain checks a certificate, leaf first, against the authorities.
func verifyChain(chain [][]byte, roots *x509.CertPool, usage x509.ExtKeyUsage, now time.Time) error {
	parsed := make([]*x509.Certificate, 0, len(chain))
	for _, raw := range chain {
		c, err := x509.ParseCertificate(raw)
		if err != nil {
			return err
		}
		parsed = append(parsed, c)
	}
	return verifyParsed(parsed, roots, usage, now)
}

func verifyParsed(chain []*x509.Certificate, roots *x509.CertPool, usage x509.ExtKeyUsage, now time.Time) error {
	if len(chain) == 0 {
		return errors.New("no certificate")
	}
	between := x509.NewCertPool()
	for _, c := range chain[1:] {
		between.AddCert(c)
	}
	_, err := chain[0].Verify(x509.VerifyOptions{Roots: roots, Intermediates: between, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{usage}})
	return err
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
	return fmt.Errorf("%w: it is for %s, expected is %s", ErrName, strings.Join(NamesOf(c), ", "), strings.Join(names, " or "))
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

// NamesOf returns the names and addresses that a certificate is for.
func NamesOf(c *x509.Certificate) []string {
	out := append([]string(nil), c.DNSNames...)
	for _, ip := range c.IPAddresses {
		out = append(out, ip.String())
	}
	if len(out) == 0 {
		return []string{"no name"}
	}
	return out
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
