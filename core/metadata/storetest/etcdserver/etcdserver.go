// Package etcdserver runs a real etcd in the process of a test.
package etcdserver

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/server/v3/embed"

	"github.com/mooncake-go/mooncake/core/metadata/storetest"
)

// Server is an etcd of one member that keeps its values in a folder of the test.
type Server struct {
	// Address is "host:port" on loopback, the same after a restart.
	Address    string
	peers, dir string
	configure  []func(*embed.Config)
	etcd       *embed.Etcd
}

// New starts a server that ends with the test. The functions may change its settings.
func New(t testing.TB, configure ...func(*embed.Config)) *Server {
	s := &Server{Address: storetest.FreeAddress(t), peers: storetest.FreeAddress(t), dir: t.TempDir(), configure: configure}
	s.Start(t)
	t.Cleanup(s.Stop)
	return s
}

// Start starts it again after Stop.
func (s *Server) Start(t testing.TB) {
	cfg := config(s.dir, s.Address, s.peers)
	for _, f := range s.configure {
		f(cfg)
	}
	var err error
	s.etcd, err = embed.StartEtcd(cfg)
	require.NoError(t, err)
	select {
	case <-s.etcd.Server.ReadyNotify():
	case err := <-s.etcd.Err():
		require.NoError(t, err)
	case <-time.After(30 * time.Second):
		require.Fail(t, "etcd does not start")
	}
}

// Stop ends it and keeps its values. Repeatable.
func (s *Server) Stop() {
	if s.etcd != nil {
		s.etcd.Close()
		s.etcd = nil
	}
}
