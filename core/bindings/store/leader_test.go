package store_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/bindings/store"
	"github.com/mooncake-go/mooncake/core/ha/etcd"
	"github.com/mooncake-go/mooncake/core/metadata/storetest/etcdserver"
)

// TestSetupWithEtcd: the codes of a set-up that finds no leader are those of the reference implementation, and the
// store joins once a master leads.
func TestSetupWithEtcd(t *testing.T) {
	srv := etcdserver.New(t)
	address := "etcd://" + srv.Address
	var log safeLog
	s := store.New(options(&log, "MC_STORE_CLUSTER_ID=blue"))
	for other, want := range map[string]store.Code{"redis://": -600, "k8s://a": -1011, "http://a:1": -600, "a:1,b": -600} {
		assert.Equal(t, want, s.Setup(t.Context(), dict(other, "max_wait_time=0"), false, nil), "%s: %s", other, s.LastError())
	}
	require.EqualValues(t, -1010, s.Setup(t.Context(), dict(address, "max_wait_time=0", "global_segment_size=16MB"), false, nil), s.LastError())
	assert.Contains(t, s.LastError(), "no master leads cluster blue")
	assert.EqualValues(t, -1010, put(s, "k", []byte("v")))

	b, err := etcd.New(address, "blue", etcd.Options{})
	require.NoError(t, err)
	defer b.Close()
	l, err := b.Acquire(t.Context(), startMaster(t, nil))
	require.NoError(t, err)
	require.Zero(t, s.Setup(t.Context(), dict(address, "max_wait_time=60", "global_segment_size=16MB"), false, nil), "%s\n%s", s.LastError(), &log)
	require.Zero(t, put(s, "k", []byte("v")))
	assert.Equal(t, []byte("v"), get(s, "k"))
	require.NoError(t, l.Resign(t.Context()))
	require.Eventually(t, func() bool { return put(s, "l", []byte("v")) == -1010 }, 30*time.Second, time.Millisecond)
	require.Zero(t, s.Close())

	srv.Stop()
	s = store.New(options(&log))
	require.EqualValues(t, -1000, s.Setup(t.Context(), dict(address, "max_wait_time=0"), false, nil), s.LastError())
	require.Zero(t, s.Close())
}
