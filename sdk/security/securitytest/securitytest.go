// Package securitytest makes authorities and certificates for tests.
package securitytest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/mooncake-go/mooncake/sdk/security"
)

// Authority signs certificates.
type Authority struct {
	// File holds the certificate of the authority, for the files that it issues; a test may write others to it. Own holds
	// that certificate too, and stays as it is.
	File, Own string
	dir       string
	cert      *x509.Certificate
	key       *ecdsa.PrivateKey
	made      int
}

// Trust is the trust domain of the identities.
const Trust = "test"

// NewAuthority makes an authority whose files lie in a folder of the test.
func NewAuthority(t testing.TB) *Authority {
	t.Helper()
	a := &Authority{dir: t.TempDir()}
	a.cert, a.key = sign(t, &x509.Certificate{
		Subject: pkix.Name{CommonName: "authority"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
	}, nil, nil)
	a.File = filepath.Join(a.dir, "ca.pem")
	a.Own = filepath.Join(a.dir, "own.pem")
	write(t, a.File, certificates(a.cert))
	write(t, a.Own, certificates(a.cert))
	return a
}

// Between makes an authority that this one has signed. The certificates that it issues have its own
// behind them; its File is that of this authority.
func (a *Authority) Between(t testing.TB) *Authority {
	t.Helper()
	return a.BetweenUntil(t, time.Now().Add(24*time.Hour))
}

// BetweenUntil is Between for an authority whose certificate ends.
func (a *Authority) BetweenUntil(t testing.TB, ends time.Time) *Authority {
	t.Helper()
	b := &Authority{dir: t.TempDir(), File: a.File}
	b.cert, b.key = sign(t, &x509.Certificate{
		Subject: pkix.Name{CommonName: "between"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign, NotBefore: time.Now().Add(-time.Hour), NotAfter: ends,
	}, a.cert, a.key)
	return b
}

// Certificate says what is special about a certificate.
type Certificate struct {
	// Role, Tenant and Name make the identity; none without a Role.
	Role   security.Role
	Tenant string
	Name   string
	// URI is another URI.
	URI   string
	Hosts []string
	// Begins and Ends default to one hour before and after now.
	Begins, Ends time.Time
	// Uses defaults to server and client.
	Uses []x509.ExtKeyUsage
	// Alone leaves out the certificates between it and the authority.
	Alone bool
}

// Issue writes a certificate and its key to new files.
func (a *Authority) Issue(t testing.TB, c Certificate) security.Files {
	t.Helper()
	a.made++
	dir := filepath.Join(a.dir, string(rune('a'+a.made%26))+time.Now().Format("150405.000000000"))
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	f := security.Files{CA: a.File, Cert: filepath.Join(dir, "cert.pem"), Key: filepath.Join(dir, "key.pem")}
	a.Replace(t, f, c)
	return f
}

// Replace writes a certificate and its key to the files of an earlier one.
func (a *Authority) Replace(t testing.TB, f security.Files, c Certificate) {
	t.Helper()
	now := time.Now()
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: "node", Organization: []string{"tests"}}, KeyUsage: x509.KeyUsageDigitalSignature, BasicConstraintsValid: true,
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(time.Hour), ExtKeyUsage: c.Uses,
	}
	if !c.Begins.IsZero() {
		template.NotBefore = c.Begins
	}
	if !c.Ends.IsZero() {
		template.NotAfter = c.Ends
	}
	if c.Uses == nil {
		template.ExtKeyUsage = []x509.ExtKeyUsage{security.AsServer, security.AsClient}
	}
	for _, h := range c.Hosts {
		if ip := net.ParseIP(h); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, h)
		}
	}
	for _, u := range []string{c.URI, identity(c)} {
		if u == "" {
			continue
		}
		parsed, err := url.Parse(u)
		if err != nil {
			t.Fatal(err)
		}
		template.URIs = append(template.URIs, parsed)
	}
	cert, key := sign(t, template, a.cert, a.key)
	chain := []*x509.Certificate{cert}
	if !c.Alone {
		chain = append(chain, a.cert)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	write(t, f.Key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw}))
	write(t, f.Cert, certificates(chain...))
}

// Keeper opens a Keeper with a certificate of the authority.
func (a *Authority) Keeper(t testing.TB, mode security.Mode, c Certificate) *security.Keeper {
	t.Helper()
	k, err := security.Open(security.Settings{Mode: mode, Files: a.Issue(t, c)})
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func identity(c Certificate) string {
	if c.Role == "" {
		return ""
	}
	return security.Identity{Trust: Trust, Role: c.Role, Tenant: c.Tenant, Name: c.Name}.URI()
}

func sign(t testing.TB, template, parent *x509.Certificate, by *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if parent == nil {
		parent, by = template, key
	}
	if template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 100)); err != nil {
		t.Fatal(err)
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, by)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(raw)
	if err != nil {
		t.Fatal(err)
	}
	return cert, key
}

func certificates(chain ...*x509.Certificate) []byte {
	var out []byte
	for _, c := range chain {
		out = append(out, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})...)
	}
	return out
}

func write(t testing.TB, name string, b []byte) {
	t.Helper()
	if err := os.WriteFile(name, b, 0o600); err != nil {
		t.Fatal(err)
	}
}
