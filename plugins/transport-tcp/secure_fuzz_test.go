package tcp

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/plugins/transport-tcp/internal/frame"
	"github.com/mooncake-go/mooncake/sdk/security"
	"github.com/mooncake-go/mooncake/sdk/security/securitytest"
	"github.com/mooncake-go/mooncake/sdk/x/transportkit"
)

// helloBytes returns what a client of TLS begins with.
func helloBytes(version uint16) []byte {
	var sent logged
	here, there := net.Pipe()
	go func() {
		_, _ = io.Copy(&sent, there)
	}()
	c := tls.Client(here, &tls.Config{InsecureSkipVerify: true, MinVersion: version, MaxVersion: version})
	_ = here.SetReadDeadline(time.Now().Add(10 * time.Millisecond))
	_ = c.Handshake()
	_ = here.Close()
	_ = there.Close()
	return []byte(sent.String())
}

// FuzzAnonymous sends bytes to the port of a node with mode mtls. No client without a certificate is served; the
// connection ends with the peer's, it is counted, and the log has one line of each kind at most.
func FuzzAnonymous(f *testing.F) {
	hello := helloBytes(tls.VersionTLS13)
	f.Add(hello)
	f.Add(hello[:40])
	f.Add(helloBytes(tls.VersionTLS12))
	f.Add(append(bytes.Clone(hello), 20, 3, 3, 0, 1, 1, 23, 3, 3, 0, 20))
	f.Add([]byte("\x16\x03\x03\xff\xff" + strings.Repeat("\x01", 100)))
	f.Add(helloOf(1))
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"))
	f.Add(bytes.Repeat([]byte{0}, 24))
	a := securitytest.NewAuthority(f)
	var log logged
	n := newNode(*loopback())
	require.NoError(f, n.Start(context.Background(), secured{settings: mtls(f, a, security.RoleStore), log: log.logger()}))
	f.Cleanup(func() { require.NoError(f, n.Stop(context.Background())) })
	e, err := frame.DecodeEndpoint(n.Endpoint().Blob)
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := net.Dial("tcp", e.Addrs[0])
		require.NoError(t, err)
		_, _ = c.Write(b)
		_ = c.(*net.TCPConn).CloseWrite() // The server may have reset it.
		require.NoError(t, c.SetDeadline(time.Now().Add(limit)))
		answer, _ := io.ReadAll(c)
		require.NoError(t, c.Close())
		require.Less(t, len(answer), 16<<10)
		require.NotContains(t, string(answer), frame.HelloMagic)
		until(t, "the connection is over", func() bool {
			n.mu.Lock()
			defer n.mu.Unlock()
			return len(n.conns) == 0 && n.greeting == 0
		})
		require.Zero(t, n.Stats().Accepted+n.Stats().AcceptedUpstream)
		require.LessOrEqual(t, strings.Count(log.String(), "WARN"), 2+int(time.Since(fuzzBegan)/transportkit.SeldomEvery)*2)
	})
}

var fuzzBegan = time.Now()
