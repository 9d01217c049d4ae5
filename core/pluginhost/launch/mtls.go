package launch

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"time"
)

// clientCertEnv tells the child, as PEM, the only certificate that it may accept.
const clientCertEnv = "PLUGIN_CLIENT_CERT"

// serverName is the name that a child's certificate must have. Both ends are on one host, and
// the check that matters is that the certificate is the one of the handshake.
const serverName = "localhost"

// certValidity outlasts any process. The key is only in memory and ends with the child.
const certValidity = 10 * 365 * 24 * time.Hour

// identity makes the host's end of mutual TLS with one child: a key that nothing else
// uses, and its certificate as PEM. The curve is P-256, because libraries of other
// languages know no larger one (BoringSSL, and so gRPC in Python, refuses P-521).
//
// It trusts no certificate yet: go-plugin puts the certificate of the child's handshake line
// into RootCAs. Without one the host cannot connect to the child.
func identity() (_ *tls.Config, certificate string, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, "", fmt.Errorf("make a key: %w", err)
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, "", fmt.Errorf("make a serial number: %w", err)
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber:          serial,
		Subject:               pkix.Name{CommonName: serverName, Organization: []string{"Mooncake plugin host"}},
		DNSNames:              []string{serverName},
		NotBefore:             now.Add(-time.Hour),
		NotAfter:              now.Add(certValidity),
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, // it vouches for itself
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true,
		IsCA:                  true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, "", fmt.Errorf("make a certificate: %w", err)
	}
	config := &tls.Config{
		Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}},
		ClientAuth:   tls.RequireAndVerifyClientCert,
		MinVersion:   tls.VersionTLS12,
		ServerName:   serverName,
		RootCAs:      x509.NewCertPool(),
		ClientCAs:    x509.NewCertPool(),
	}
	return config, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), nil
}
