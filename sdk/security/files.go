package security

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/mooncake-go/mooncake/sdk/errs"
)

// Files names the PEM files of a process: the certificates of the authorities that it trusts, its own
// certificate with those between it and the authority, and the key.
type Files struct {
	CA, Cert, Key string
	// Of names what sets the files, for errors; empty for "security".
	Of string
}

// Set is what the files hold, as of one look. It does not change.
type Set struct {
	Cert  tls.Certificate
	Leaf  *x509.Certificate // nil where Files has no Cert
	Roots *x509.CertPool
	// Digest is a checksum of the files.
	Digest [sha256.Size]byte
}

// The uses of a certificate, for Load.
const (
	AsServer = x509.ExtKeyUsageServerAuth
	AsClient = x509.ExtKeyUsageClientAuth
)

func (f Files) op() string {
	if f.Of != "" {
		return f.Of
	}
	return "security"
}

func (f Files) hint() string {
	return "'mooncake certs init DIR' makes an authority, 'mooncake certs issue DIR HOST' a certificate for each process; " +
		"then set ca, cert and key of " + f.op()
}

func (f Files) fail(hint, format string, args ...any) error {
	return &errs.Error{
		Code: errs.InvalidParams, Class: errs.ClassLocalDevice, Op: f.op() + ": certificates", Err: fmt.Errorf(format, args...), Hint: hint,
	}
}

// Load reads the files and finds out what peers would refuse in them; the set is there beside such an error. Cert and
// Key may both be empty where uses is.
func (f Files) Load(now time.Time, uses ...x509.ExtKeyUsage) (*Set, error) {
	if f.CA == "" {
		return nil, f.fail(f.hint(), "no certificates are configured")
	}
	if f.Cert == "" && f.Key == "" && len(uses) == 0 {
		return f.loadRoots()
	}
	if f.Cert == "" || f.Key == "" {
		return nil, f.fail(f.hint(), "this process needs a certificate and its key: cert is %q, key is %q", f.Cert, f.Key)
	}
	s, texts, err := f.parse()
	if err != nil {
		return nil, err
	}
	if s.Cert, err = tls.X509KeyPair(texts[1], texts[2]); err != nil {
		return nil, f.fail("cert and key must be PEM files that belong together; see them with 'mooncake certs show FILE'", "%s and %s: %w", f.Cert, f.Key, err)
	}
	s.Leaf = s.Cert.Leaf
	return s, f.check(s, now, uses)
}

func (f Files) loadRoots() (*Set, error) {
	s, _, err := f.parse()
	return s, err
}

func (f Files) parse() (*Set, [][]byte, error) {
	texts, digest, err := f.read()
	if err != nil {
		return nil, nil, err
	}
	s := &Set{Roots: x509.NewCertPool(), Digest: digest}
	if !s.Roots.AppendCertsFromPEM(texts[0]) {
		return nil, nil, f.fail(f.hint(), "%s: holds no certificate in PEM", f.CA)
	}
	return s, texts, nil
}

// read returns the files, and a checksum over all of them.
func (f Files) read() ([][]byte, [sha256.Size]byte, error) {
	const most = 1 << 20
	all := sha256.New()
	var out [][]byte
	for _, p := range []string{f.CA, f.Cert, f.Key} {
		if p == "" {
			continue
		}
		info, err := os.Stat(p)
		if err == nil && (info.IsDir() || info.Size() > most) {
			err = errors.New("not a file of at most 1 MiB")
		}
		var b []byte
		if err == nil {
			b, err = os.ReadFile(p)
		}
		if err != nil {
			return nil, [sha256.Size]byte{}, f.fail(f.hint(), "cannot read %s: %w", p, err)
		}
		fmt.Fprintf(all, "%d:", len(b))
		all.Write(b)
		out = append(out, b)
	}
	return out, [sha256.Size]byte(all.Sum(nil)), nil
}

// Sum returns the digest of the files as they are now, which Set.Digest is compared with.
func (f Files) Sum() ([sha256.Size]byte, error) {
	_, digest, err := f.read()
	return digest, err
}

// check finds out what peers would refuse.
func (f Files) check(s *Set, now time.Time, uses []x509.ExtKeyUsage) error {
	switch {
	case now.After(s.Leaf.NotAfter):
		return f.fail("make a new one: 'mooncake certs renew "+f.Cert+"'", "%s: the certificate ended at %s", f.Cert, s.Leaf.NotAfter.UTC().Format(time.RFC3339))
	case now.Before(s.Leaf.NotBefore):
		return f.fail("see whether the clock of this machine is right", "%s: the certificate begins at %s", f.Cert, s.Leaf.NotBefore.UTC().Format(time.RFC3339))
	}
	chain, err := parseChain(s.Cert.Certificate)
	if err != nil {
		return f.fail(f.hint(), "%s: %w", f.Cert, err)
	}
	for _, use := range uses {
		name := "server"
		if use == AsClient {
			name = "client"
		}
		if err := s.Verify(chain, use, now); err != nil {
			return f.fail(adviceOn(err), "%s: peers will not accept it as a %s's: %w", f.Cert, name, err)
		}
	}
	if _, err := identityIn(s.Leaf); err != nil && !errors.Is(err, ErrNoIdentity) {
		return f.fail("'mooncake certs issue DIR --role ROLE --name NAME HOST' writes a right one", "%s: %w", f.Cert, err)
	}
	return nil
}

func adviceOn(err error) string {
	var invalid x509.CertificateInvalidError
	switch {
	case errors.As(err, &invalid) && invalid.Reason == x509.IncompatibleUsage:
		return "it must be signed by the authority of ca, for use as server and as client"
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "a certificate between it and the authority, or the authority, has ended or does not begin yet; see them with 'mooncake certs show FILE'"
	default:
		return "it must be signed by the authority of ca, for use as server and as client; " +
			"where others lie between it and that authority, they follow it in the file cert"
	}
}

func parseChain(raw [][]byte) ([]*x509.Certificate, error) {
	parsed := make([]*x509.Certificate, 0, len(raw))
	for _, r := range raw {
		c, err := x509.ParseCertificate(r)
		if err != nil {
			return nil, err
		}
		parsed = append(parsed, c)
	}
	return parsed, nil
}

// Verify checks a chain, leaf first, against the authorities of the set.
func (s *Set) Verify(chain []*x509.Certificate, use x509.ExtKeyUsage, now time.Time) error {
	_, err := s.chains(chain, use, now)
	return err
}

func (s *Set) chains(chain []*x509.Certificate, use x509.ExtKeyUsage, now time.Time) ([][]*x509.Certificate, error) {
	if len(chain) == 0 {
		return nil, errors.New("no certificate")
	}
	between := x509.NewCertPool()
	for _, c := range chain[1:] {
		between.AddCert(c)
	}
	return chain[0].Verify(x509.VerifyOptions{Roots: s.Roots, Intermediates: between, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{use}})
}

// NamesOf returns the names and addresses that a certificate is for.
func NamesOf(c *x509.Certificate) []string {
	out := append([]string(nil), c.DNSNames...)
	for _, ip := range c.IPAddresses {
		out = append(out, ip.String())
	}
	for _, u := range c.URIs {
		out = append(out, u.String())
	}
	if len(out) == 0 {
		return []string{"no name"}
	}
	return out
}
