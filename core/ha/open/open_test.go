package open_test

import (
	"net"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

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
		"redis://a:1": errs.UnavailableInCurrentMode, "k8s://lease": errs.UnavailableInCurrentMode,
		"http://a": errs.InvalidParams, "a": errs.InvalidParams, "etcd://u:p@h": errs.InvalidParams, "etcd://a:0": errs.InvalidParams,
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
