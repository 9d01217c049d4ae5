package quic

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// authority signs certificates of tests.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t testing.TB) *authority {
	a := &authority{}
	a.cert, a.key = a.sign(t, &x509.Certificate{
		Subject: pkix.Name{CommonName: "test"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
		NotBefore: time.Now().Add(-100 * time.Hour), NotAfter: time.Now().Add(1000 * time.Hour),
	})
	return a
}

func (a *authority) sign(t testing.TB, c *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	c.SerialNumber, err = rand.Int(rand.Reader, big.NewInt(1<<62))
	require.NoError(t, err)
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = c, key
	}
	raw, err := x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, signer)
	require.NoError(t, err)
	out, err := x509.ParseCertificate(raw)
	require.NoError(t, err)
	return out, key
}

// node makes the template of a node's certificate.
func nodeCert(changes ...func(*x509.Certificate)) *x509.Certificate {
	c := &x509.Certificate{
		Subject: pkix.Name{CommonName: "node"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(500 * time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	for _, change := range changes {
		change(c)
	}
	return c
}

// files are the three files of a node.
type files struct{ ca, cert, key string }

func newFiles(t testing.TB) files {
	dir := t.TempDir()
	return files{filepath.Join(dir, "ca.pem"), filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")}
}

// write puts the certificate that trusts signs by by into the files.
func (f files) write(t testing.TB, trusts, by *authority, c *x509.Certificate) files {
	cert, key := by.sign(t, c)
	raw, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	put(t, f.ca, "CERTIFICATE", trusts.cert.Raw)
	put(t, f.key, "PRIVATE KEY", raw)
	put(t, f.cert, "CERTIFICATE", cert.Raw)
	return f
}

func put(t testing.TB, name, kind string, raw []byte) {
	require.NoError(t, os.WriteFile(name, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: raw}), 0o600))
}

// config is that of a node with the files.
func (f files) config() *Config {
	c := insecure()
	c.InsecureDev, c.CA, c.Cert, c.Key = false, f.ca, f.cert, f.key
	return c
}
