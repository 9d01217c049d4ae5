package launch

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/evict"
)

// TestTheHostsCertificate: a plugin in any language can verify the certificate. Each child gets a
// new key, and no other certificate is trusted at first.
func TestTheHostsCertificate(t *testing.T) {
	config, text, err := identity()
	require.NoError(t, err)
	block, rest := pem.Decode([]byte(text))
	require.NotNil(t, block)
	assert.Empty(t, rest)
	cert, err := x509.ParseCertificate(block.Bytes)
	require.NoError(t, err)
	key, ok := cert.PublicKey.(*ecdsa.PublicKey)
	require.True(t, ok)
	assert.Equal(t, elliptic.P256(), key.Curve)
	own := x509.NewCertPool()
	own.AddCert(cert)
	_, err = cert.Verify(x509.VerifyOptions{DNSName: serverName, Roots: own, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	assert.NoError(t, err)
	assert.True(t, config.RootCAs.Equal(x509.NewCertPool()), "nothing is trusted before the handshake, not even the system's authorities")

	_, again, err := identity()
	require.NoError(t, err)
	assert.NotEqual(t, text, again)
}

// call sends one request over TLS. Its answer shows whether the server refused the certificate
// after the handshake.
func call(t *testing.T, addr net.Addr, config *tls.Config) error {
	t.Helper()
	dialer := &tls.Dialer{Config: config}
	conn, err := dialer.DialContext(t.Context(), addr.Network(), addr.String())
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := conn.Write([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00")); err != nil {
		return err
	}
	_, err = conn.Read(make([]byte, 9))
	return err
}

// TestAStrangerCannotConnect: not with another certificate, not with the child's own, not without
// one, and not without TLS. The host goes on undisturbed.
func TestAStrangerCannotConnect(t *testing.T) {
	p, policy, _ := start(t, "")
	addr := p.host.ReattachConfig().Addr

	stranger, _, err := identity()
	require.NoError(t, err)
	stranger.InsecureSkipVerify = true
	stranger.NextProtos = []string{"h2"}
	require.Error(t, call(t, addr, stranger), "in TLS 1.3 the first answer shows the refusal")
	stranger.MaxVersion = tls.VersionTLS12 // where the handshake fails and says why
	assert.ErrorContains(t, call(t, addr, stranger), "certificate")
	stranger.Certificates = nil
	assert.ErrorContains(t, call(t, addr, stranger), "remote error")

	host := p.secure.Clone()
	host.NextProtos = []string{"h2"}
	require.NoError(t, call(t, addr, host), "the host itself can")
	host.RootCAs = x509.NewCertPool()
	assert.ErrorContains(t, call(t, addr, host), "unknown authority", "the host knows its child")

	var dialer net.Dialer
	plain, err := dialer.DialContext(t.Context(), addr.Network(), addr.String())
	require.NoError(t, err)
	defer plain.Close()
	_, err = plain.Write([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"))
	require.NoError(t, err)
	answer := make([]byte, 64)
	n, _ := plain.Read(answer)
	assert.NotContains(t, string(answer[:n]), "\x00\x00\x00\x04", "a client without a key gets no settings of HTTP/2")

	require.NoError(t, policy.Record(t.Context(), []evict.Event{{Op: evict.Insert, ID: 1, Size: 5}}))
	info, err := os.Stat(filepath.Dir(addr.String()))
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o700), info.Mode().Perm(), "no other user can reach the socket")
}

// asImpostor makes the test binary a plugin that lies.
const asImpostor = "LAUNCH_TEST_IMPOSTOR"

func self(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	require.NoError(t, err)
	return path
}

// impostor makes the test binary a plugin whose socket another server serves: the handshake line
// shows one certificate, or none, and the server has another.
func impostor(shown bool) {
	listener, err := net.Listen("unix", filepath.Join(os.Getenv("PLUGIN_UNIX_SOCKET_DIR"), "s"))
	if err != nil {
		panic(err)
	}
	real, _, err := identity()
	if err != nil {
		panic(err)
	}
	other, _, err := identity()
	if err != nil {
		panic(err)
	}
	other.ClientAuth = tls.NoClientCert
	other.NextProtos = []string{"h2"}
	certificate := ""
	if shown {
		certificate = base64.RawStdEncoding.EncodeToString(real.Certificates[0].Certificate[0])
	}
	fmt.Printf("1|1|unix|%s|grpc|%s\n", listener.Addr(), certificate)
	for {
		conn, err := tls.NewListener(listener, other).Accept()
		if err != nil {
			panic(err)
		}
		_ = conn.(*tls.Conn).HandshakeContext(context.Background())
	}
}

// TestAnotherServerIsRefused: the host speaks only with the server that holds the key of the
// certificate in the handshake line. If the line has none, it speaks with no server.
func TestAnotherServerIsRefused(t *testing.T) {
	for _, mode := range []string{"shown", "hidden"} {
		t.Run(mode, func(t *testing.T) {
			o, _ := options("")
			o.Path, o.Env = self(t), []string{asImpostor}
			o.lookupEnv = func(name string) (string, bool) { return mode, name == asImpostor }
			_, err := Start(t.Context(), o)
			require.ErrorIs(t, err, errs.RPCFail.Err())
			assert.ErrorContains(t, err, "certificate")
		})
	}
}
