package certs

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/mooncake-go/mooncake/sdk/errs"
)

// The bounds of how long certificates are valid.
const (
	Least = time.Hour
	Most  = 100 * 365 * 24 * time.Hour
)

// backdate is how far in the past a certificate begins, for machines whose clocks are late.
const backdate = 10 * time.Minute

// Pair is a certificate with its private key.
type Pair struct {
	Cert *x509.Certificate
	Key  *ecdsa.PrivateKey
}

// NewAuthority makes an authority that signs certificates of nodes and nothing below them.
func NewAuthority(name string, valid time.Duration, now time.Time) (*Pair, error) {
	if name == "" || len(name) > 64 {
		return nil, errs.New(errs.InvalidParams, "certs", "the name of the authority has %d characters, must be 1 to 64", len(name))
	}
	if err := checkValid(valid); err != nil {
		return nil, err
	}
	return sign(&x509.Certificate{
		Subject:   pkix.Name{CommonName: name},
		NotBefore: now.Add(-backdate), NotAfter: now.Add(valid),
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}, nil)
}

// Issue makes the certificate of a node that peers reach under hosts: names, addresses, or
// names that begin with "*.". uris are what else it carries, such as an identity; with one it needs no host. It ends
// with the authority at the latest.
func (p *Pair) Issue(hosts []string, valid time.Duration, now time.Time, uris ...*url.URL) (*Pair, error) {
	if err := checkValid(valid); err != nil {
		return nil, err
	}
	if !p.Cert.IsCA {
		return nil, errs.New(errs.InvalidParams, "certs", "%s is not the certificate of an authority", p.Cert.Subject.CommonName)
	}
	if !now.Before(p.Cert.NotAfter) {
		return nil, errs.WithHint(errs.New(errs.InvalidParams, "certs", "the authority ended at %s", stamp(p.Cert.NotAfter)), "make a new one with 'mooncake certs init', and give it to all nodes")
	}
	t := &x509.Certificate{
		NotBefore: now.Add(-backdate), NotAfter: now.Add(valid), URIs: uris,
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}, BasicConstraintsValid: true,
	}
	if t.NotAfter.After(p.Cert.NotAfter) {
		t.NotAfter = p.Cert.NotAfter
	}
	if t.NotBefore.Before(p.Cert.NotBefore) {
		t.NotBefore = p.Cert.NotBefore
	}
	for _, h := range hosts {
		if err := addHost(t, h); err != nil {
			return nil, err
		}
	}
	if len(t.DNSNames)+len(t.IPAddresses)+len(uris) == 0 {
		return nil, errs.New(errs.InvalidParams, "certs", "a node needs a name or an address under which peers reach it")
	}
	t.Subject.CommonName = firstHost(t)
	return sign(t, p)
}

func checkValid(valid time.Duration) error {
	if valid < Least || valid > Most {
		return errs.New(errs.InvalidParams, "certs", "valid for %v, must be %v to %v", valid, Least, Most)
	}
	return nil
}

func addHost(t *x509.Certificate, h string) error {
	if ip := net.ParseIP(strings.Trim(h, "[]")); ip != nil {
		if !slices.ContainsFunc(t.IPAddresses, ip.Equal) {
			t.IPAddresses = append(t.IPAddresses, ip)
		}
		return nil
	}
	name := strings.ToLower(strings.TrimSuffix(h, "."))
	bare := strings.TrimPrefix(name, "*.")
	if u, err := url.Parse("https://" + bare + "/"); err != nil || u.Hostname() != bare || len(name) > 253 || strings.ContainsAny(bare, "* _") || slices.Contains(strings.Split(bare, "."), "") {
		return errs.New(errs.InvalidParams, "certs", "%q is neither a host name nor an IP address; give it without a port", h)
	}
	if !slices.Contains(t.DNSNames, name) {
		t.DNSNames = append(t.DNSNames, name)
	}
	return nil
}

func firstHost(t *x509.Certificate) string {
	if len(t.DNSNames) > 0 && len(t.DNSNames[0]) <= 64 {
		return t.DNSNames[0]
	}
	if len(t.IPAddresses) > 0 {
		return t.IPAddresses[0].String()
	}
	return "node"
}

// sign makes a key for t and has the authority sign it; nil signs itself.
func sign(t *x509.Certificate, by *Pair) (*Pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("certs: make a key: %w", err)
	}
	if t.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127)); err != nil {
		return nil, fmt.Errorf("certs: %w", err)
	}
	parent, signer := t, key
	if by != nil {
		parent, signer = by.Cert, by.Key
	}
	raw, err := x509.CreateCertificate(rand.Reader, t, parent, &key.PublicKey, signer)
	if err != nil {
		return nil, fmt.Errorf("certs: sign: %w", err)
	}
	cert, err := x509.ParseCertificate(raw)
	if err != nil {
		return nil, fmt.Errorf("certs: sign: %w", err)
	}
	return &Pair{Cert: cert, Key: key}, nil
}

// PEM returns both as they stand in files.
func (p *Pair) PEM() (cert, key []byte, err error) {
	raw, err := x509.MarshalPKCS8PrivateKey(p.Key)
	if err != nil {
		return nil, nil, fmt.Errorf("certs: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: p.Cert.Raw}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw}), nil
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }
