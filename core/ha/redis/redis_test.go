package redis_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	redigo "github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mooncake-go/mooncake/core/ha"
	"github.com/mooncake-go/mooncake/core/ha/hatest"
	"github.com/mooncake-go/mooncake/core/ha/redis"
	"github.com/mooncake-go/mooncake/core/metadata/storetest/redisserver"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t testing.TB, address, cluster string) *redis.Backend {
	b, err := redis.New("redis://"+address, cluster, redis.Options{})
	require.NoError(t, err)
	t.Cleanup(b.Close)
	return b
}

func TestConformance(t *testing.T) {
	srv := redisserver.New(t)
	var clusters atomic.Int32
	hatest.Run(t, func(t *testing.T) func() ha.Backend {
		cluster := fmt.Sprint("c", clusters.Add(1))
		return func() ha.Backend { return open(t, srv.Address, cluster) }
	})
}

// TestUpstreamReadsTheKeys: names, types and values are those that upstream's masters and clients use.
func TestUpstreamReadsTheKeys(t *testing.T) {
	srv := redisserver.New(t)
	l, err := open(t, srv.Address, "a{b}").Acquire(t.Context(), "10.0.0.1:50051")
	require.NoError(t, err)
	raw, err := redigo.Dial("tcp", srv.Address)
	require.NoError(t, err)
	defer raw.Close() //nolint:errcheck // Nothing is in flight.
	const view = "mooncake-store/{a_b_}/master_view"
	hash, err := redigo.StringMap(raw.Do("HGETALL", view))
	require.NoError(t, err)
	require.Equal(t, "10.0.0.1:50051", hash["leader_address"])
	require.Equal(t, "1", hash["view_version"])
	require.NotEmpty(t, hash["owner_token"])
	version, err := redigo.String(raw.Do("GET", view+"_version"))
	require.NoError(t, err)
	require.Equal(t, "1", version)
	left, err := redigo.Int(raw.Do("PTTL", view))
	require.NoError(t, err)
	require.Positive(t, left, "the key expires with its leader")
	require.LessOrEqual(t, left, 2000)
	require.NoError(t, l.Resign(t.Context()))
}

// TestALeaderThatExpired: a leader whose key was taken by another one has lost, and leaves the other's key alone.
func TestALeaderThatExpired(t *testing.T) {
	srv := redisserver.New(t)
	b := open(t, srv.Address, "c")
	old, err := b.Acquire(t.Context(), "10.0.0.1:50051")
	require.NoError(t, err)
	raw, err := redigo.Dial("tcp", srv.Address)
	require.NoError(t, err)
	defer raw.Close() //nolint:errcheck // Nothing is in flight.
	_, err = raw.Do("DEL", "mooncake-store/{c}/master_view")
	require.NoError(t, err)
	next, err := open(t, srv.Address, "c").Acquire(t.Context(), "10.0.0.2:50051")
	require.NoError(t, err)
	select {
	case <-old.Lost():
	case <-time.After(20 * time.Second):
		require.Fail(t, "the leadership is not lost")
	}
	require.NoError(t, old.Resign(t.Context()))
	v, err := b.View(t.Context())
	require.NoError(t, err)
	require.Equal(t, next.View(), v)
	require.NoError(t, next.Resign(t.Context()))
}

func TestBadAddressAndNoServer(t *testing.T) {
	_, err := redis.New("redis://", "c", redis.Options{})
	require.Equal(t, errs.InvalidParams, errs.CodeOf(err), "%v", err)
	_, err = open(t, "127.0.0.1:1", "c").Acquire(t.Context(), "10.0.0.1:50051")
	require.Equal(t, errs.RPCFail, errs.CodeOf(err), "%v", err)
	require.ErrorContains(t, err, "is Redis running there?")
}
