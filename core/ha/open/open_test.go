package open_test

import (
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/client/pkg/v3/transport"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/goleak"

	"github.com/mooncake-go/mooncake/core/certs"
	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/ha/etcd"
	"github.com/mooncake-go/mooncake/core/ha/open"
	"github.com/mooncake-go/mooncake/core/internal/testkit/heldport"
	"github.com/mooncake-go/mooncake/core/metadata/storetest/etcdserver"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestDirectory(t *testing.T) {
	for _, plain := range []string{"a:1", "a:1,b:2"} {
		d, err := open.Directory(plain, "c", open.Options{})
		require.NoError(t, err)
		require.Nil(t, d)
	}
	for address, want := range map[string]errs.Code{
		"k8s://lease": errs.UnavailableInCurrentMode, // This is no pod.
		"redis://":    errs.InvalidParams,
		"http://a":    errs.InvalidParams, "a": errs.InvalidParams, "etcd://u:p@h": errs.InvalidParams, "etcd://a:0": errs.InvalidParams,
	} {
		_, err := open.Directory(address, "c", open.Options{})
		require.Equal(t, want, errs.CodeOf(err), "%s: %v", address, err)
	}
}

func TestTheLeaderInEtcd(t *testing.T) {
	srv := etcdserver.New(t)
	address := "etcd://" + srv.Address
	_, err := open.Leader(t.Context(), address, "blue", open.Options{})
	require.ErrorContains(t, err, "no master leads cluster blue")
	require.Equal(t, errs.UnavailableInCurrentStatus, errs.CodeOf(err))
	b, err := etcd.New(address, "blue", etcd.Options{})
	require.NoError(t, err)
	defer b.Close()
	l, err := b.Acquire(t.Context(), "10.0.0.1:50051")
	require.NoError(t, err)
	got, err := open.Leader(t.Context(), address, "blue", open.Options{})
	require.NoError(t, err)
	require.Equal(t, "10.0.0.1:50051", got)
	require.NoError(t, l.Resign(t.Context()))
	srv.Stop()
	_, err = open.Leader(t.Context(), address, "blue", open.Options{})
	require.Equal(t, errs.EtcdOperationError, errs.CodeOf(err), "%v", err)
}

func TestTheLeaderOfAList(t *testing.T) {
	got, err := open.Leader(t.Context(), "10.0.0.1:1", "c", open.Options{})
	require.NoError(t, err)
	require.Equal(t, "10.0.0.1:1", got, "the only one is not asked")
	down := heldport.Address(t)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer ln.Close()
	got, err = open.Leader(t.Context(), down+","+ln.Addr().String(), "c", open.Options{})
	require.NoError(t, err)
	require.Equal(t, ln.Addr().String(), got)
	_, err = open.Leader(t.Context(), down+";"+down, "c", open.Options{})
	require.Equal(t, errs.RPCFail, errs.CodeOf(err), "%v", err)
}

// TestSecurity: files that are not what they should be are refused before anything is sent.
func TestSecurity(t *testing.T) {
	dir := t.TempDir()
	empty := filepath.Join(dir, "empty.pem")
	require.NoError(t, os.WriteFile(empty, []byte("nothing"), 0o600))
	for want, o := range map[string]open.Options{
		"store.ha_ca_file":         {CAFile: filepath.Join(dir, "none")},
		"has no certificate":       {CAFile: empty},
		"store.ha_cert_file":       {CertFile: empty, KeyFile: empty},
		"belong together":          {CertFile: empty},
		"given both or not at all": {Username: "u"},
	} {
		_, err := open.Backend("etcd", "https://127.0.0.1:1", "c", o)
		require.ErrorContains(t, err, want)
		require.Equal(t, errs.InvalidParams, errs.CodeOf(err))
	}
	_, err := open.Backend("zookeeper", "a:1", "c", open.Options{})
	require.Equal(t, errs.UnavailableInCurrentMode, errs.CodeOf(err))
}

// TestEtcdWithTLS: a leader is elected over https, with the certificates of an own authority on both sides.
func TestEtcdWithTLS(t *testing.T) {
	folder := certs.Folder(t.TempDir())
	ca, err := folder.Init("test", time.Hour, time.Now())
	require.NoError(t, err)
	node, err := folder.Issue("etcd", []string{"127.0.0.1"}, time.Hour, time.Now())
	require.NoError(t, err)
	srv := etcdserver.New(t, func(c *embed.Config) {
		c.ClientTLSInfo = transport.TLSInfo{CertFile: node.Cert, KeyFile: node.Key, TrustedCAFile: ca.Cert, ClientCertAuth: true}
		for i := range c.ListenClientUrls {
			c.ListenClientUrls[i].Scheme, c.AdvertiseClientUrls[i].Scheme = "https", "https"
		}
	})
	b, err := open.Backend("etcd", "https://"+srv.Address, "c", open.Options{CAFile: ca.Cert, CertFile: node.Cert, KeyFile: node.Key})
	require.NoError(t, err)
	defer b.Close()
	l, err := b.Acquire(t.Context(), "10.0.0.1:50051")
	require.NoError(t, err)
	require.NoError(t, l.Resign(t.Context()))
	// A process with a security mode shows its own certificate, as it is at the time of each connection, unless the
	// settings name another one or the door is plaintext.
	process := config.Security{Mode: "mtls", CA: ca.Cert, Cert: node.Cert, Key: node.Key}
	own := open.FromConfig(config.Store{}, process, nil)
	require.NoError(t, open.Allow(nil, "etcd", srv.Address, own))
	follows, err := open.Backend("etcd", srv.Address, "d", own)
	require.NoError(t, err)
	defer follows.Close()
	require.NoError(t, os.Rename(node.Cert, node.Cert+".old"))
	_, err = follows.View(t.Context())
	require.Equal(t, errs.EtcdOperationError, errs.CodeOf(err), "there is no certificate")
	require.NoError(t, os.Rename(node.Cert+".old", node.Cert))
	require.Eventually(t, func() bool { _, err := follows.View(t.Context()); return err == nil }, time.Minute, 10*time.Millisecond)
	require.Equal(t, "x", open.FromConfig(config.Store{HACAFile: "x"}, process, nil).CAFile)
	process.Plaintext = []string{"etcd"}
	require.Empty(t, open.FromConfig(config.Store{}, process, nil).CAFile)

	plain, err := open.Backend("etcd", "https://"+srv.Address, "c", open.Options{CAFile: ca.Cert})
	require.NoError(t, err)
	defer plain.Close()
	_, err = plain.View(t.Context())
	require.Equal(t, errs.EtcdOperationError, errs.CodeOf(err), "etcd wants a certificate")
}
