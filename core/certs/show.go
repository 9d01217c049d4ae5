package certs

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"os"
	"time"

	"github.com/mooncake-go/mooncake/sdk/errs"
)

// Info is what there is to know of one certificate.
type Info struct {
	Subject     string    `json:"subject"`
	Issuer      string    `json:"issuer"`
	Authority   bool      `json:"authority"`
	Names       []string  `json:"names,omitempty"`
	Begins      time.Time `json:"begins"`
	Ends        time.Time `json:"ends"`
	Server      bool      `json:"server"`
	Client      bool      `json:"client"`
	Key         string    `json:"key"`
	Fingerprint string    `json:"sha256"`
}

// maxFile bounds a file of certificates, in bytes.
const maxFile = 1 << 20

// Read returns the certificates of a PEM file, in order.
func Read(name string) ([]*x509.Certificate, error) {
	st, err := os.Stat(name)
	if err != nil {
		return nil, fmt.Errorf("certs: %w", err)
	}
	if !st.Mode().IsRegular() || st.Size() > maxFile {
		return nil, errs.New(errs.InvalidParams, "certs", "%s is not a file of at most %d bytes", name, maxFile)
	}
	b, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("certs: %w", err)
	}
	return Parse(b, name)
}

// Parse returns the certificates in text, in order; name is for errors.
func Parse(text []byte, name string) ([]*x509.Certificate, error) {
	var out []*x509.Certificate
	for {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			continue
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, errs.Wrap(errs.InvalidParams, "certs: "+name, err)
		}
		out = append(out, c)
	}
	if len(out) == 0 {
		return nil, errs.New(errs.InvalidParams, "certs", "%s holds no certificate in PEM", name)
	}
	return out, nil
}

// Describe says what there is to know of a certificate.
func Describe(c *x509.Certificate) Info {
	sum := sha256.Sum256(c.Raw)
	i := Info{
		Subject: c.Subject.CommonName, Issuer: c.Issuer.CommonName, Authority: c.IsCA, Names: append([]string(nil), c.DNSNames...),
		Begins: c.NotBefore.UTC(), Ends: c.NotAfter.UTC(), Key: keyKind(c.PublicKey), Fingerprint: hex.EncodeToString(sum[:]),
	}
	for _, ip := range c.IPAddresses {
		i.Names = append(i.Names, ip.String())
	}
	for _, u := range c.URIs {
		i.Names = append(i.Names, u.String())
	}
	for _, u := range c.ExtKeyUsage {
		i.Server = i.Server || u == x509.ExtKeyUsageServerAuth || u == x509.ExtKeyUsageAny
		i.Client = i.Client || u == x509.ExtKeyUsageClientAuth || u == x509.ExtKeyUsageAny
	}
	if len(c.ExtKeyUsage) == 0 && !c.IsCA {
		i.Server, i.Client = true, true
	}
	return i
}

func keyKind(k any) string {
	switch k := k.(type) {
	case *ecdsa.PublicKey:
		return "ECDSA " + k.Curve.Params().Name
	case *rsa.PublicKey:
		return fmt.Sprintf("RSA %d", k.N.BitLen())
	case ed25519.PublicKey:
		return "Ed25519"
	default:
		return "unknown"
	}
}
