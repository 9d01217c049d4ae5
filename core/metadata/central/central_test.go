package central_test

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mooncake-go/mooncake/core/internal/testkit/heldport"
	"github.com/mooncake-go/mooncake/core/metadata"
	"github.com/mooncake-go/mooncake/core/metadata/central"
	"github.com/mooncake-go/mooncake/core/metadata/memory"
	"github.com/mooncake-go/mooncake/core/metadata/p2p"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t *testing.T, s metadata.Store, opts central.Options) *central.Directory {
	t.Helper()
	opts.Daemon = p2p.DaemonOptions{BindHost: "127.0.0.1"}
	d, err := central.Open(t.Context(), s, opts)
	require.NoError(t, err)
	t.Cleanup(func() { _ = d.Close(context.Background()) })
	return d
}

func descriptor(name string) *metadata.Descriptor {
	return &metadata.Descriptor{Name: name, Protocol: "tcp", TCPProtoVersion: 2, Buffers: []metadata.Buffer{{Name: name, Addr: 4096, Length: 8192}}}
}

func TestPublishLookupWithdraw(t *testing.T) {
	s := memory.New(memory.Limits{})
	a := open(t, s, central.Options{LocalName: "127.0.0.1:1", Keys: metadata.Keys{Cluster: "c"}})
	b := open(t, s, central.Options{LocalName: "127.0.0.1:2", Keys: metadata.Keys{Cluster: "c"}})
	ctx := t.Context()
	_, err := b.Lookup(ctx, a.LocalName())
	assert.ErrorIs(t, err, metadata.ErrNotFound)
	require.NoError(t, a.Publish(ctx, descriptor(a.LocalName())))
	require.NoError(t, a.Publish(ctx, descriptor(a.LocalName())), "again")
	got, err := b.Lookup(ctx, a.LocalName())
	require.NoError(t, err)
	assert.Equal(t, descriptor(a.LocalName()), got)

	addr, err := b.Address(ctx, a.LocalName())
	require.NoError(t, err)
	assert.Equal(t, metadata.Address{Host: "127.0.0.1", Port: a.Daemon().Port()}, addr)
	require.NoError(t, b.Probe(ctx, a.LocalName()))
	d, err := p2p.Dialer{}.Fetch(ctx, addr, nil)
	require.NoError(t, err)
	assert.Equal(t, got, d, "the daemon answers with the same")

	require.NoError(t, a.Withdraw(ctx))
	assert.Zero(t, s.Len())
	require.NoError(t, a.Publish(ctx, descriptor(a.LocalName())))
	require.NoError(t, a.Close(ctx))
	require.NoError(t, a.Close(ctx))
	assert.Zero(t, s.Len())
	assert.Error(t, a.Publish(ctx, descriptor(a.LocalName())), "closed")
	assert.Error(t, b.Publish(ctx, descriptor(a.LocalName())), "somebody else's")
}

func TestNameOfALivingNodeIsRefused(t *testing.T) {
	s := memory.New(memory.Limits{})
	a := open(t, s, central.Options{LocalName: "127.0.0.1:1"})
	b := open(t, s, central.Options{LocalName: "127.0.0.1:1"})
	ctx := t.Context()
	require.NoError(t, a.Publish(ctx, descriptor("127.0.0.1:1")))
	err := b.Publish(ctx, descriptor("127.0.0.1:1"))
	assert.Equal(t, errs.SegmentAlreadyExists, errs.CodeOf(err))
	assert.ErrorContains(t, err, metadata.JoinName("127.0.0.1", a.Daemon().Port()), "it says who holds the name")
	require.NoError(t, b.Close(ctx))
	assert.Equal(t, 2, s.Len(), "the loser took nothing away")
}

func TestNameOfADeadNodeIsTakenOver(t *testing.T) {
	_, port, err := metadata.ParseName(heldport.Address(t))
	require.NoError(t, err)
	dead, err := metadata.EncodeAddress(metadata.Address{Host: "127.0.0.1", Port: port})
	require.NoError(t, err)
	for _, left := range [][]byte{dead, []byte("garbage")} {
		s := memory.New(memory.Limits{})
		require.NoError(t, s.Put(t.Context(), metadata.Keys{}.RPCMeta("127.0.0.1:1"), left))
		d := open(t, s, central.Options{LocalName: "127.0.0.1:1"})
		require.NoError(t, d.Publish(t.Context(), descriptor("127.0.0.1:1")))
		a, err := d.Address(t.Context(), "127.0.0.1:1")
		require.NoError(t, err)
		assert.Equal(t, d.Daemon().Port(), a.Port)
	}
}

func TestRestartedServiceIsToldAgain(t *testing.T) {
	s := memory.New(memory.Limits{})
	d := open(t, s, central.Options{LocalName: "127.0.0.1:1", Refresh: time.Millisecond})
	ctx := t.Context()
	require.NoError(t, d.Publish(ctx, descriptor("127.0.0.1:1")))
	require.NoError(t, s.Delete(ctx, metadata.Keys{}.Segment("127.0.0.1:1")))
	require.NoError(t, s.Delete(ctx, metadata.Keys{}.RPCMeta("127.0.0.1:1")))
	require.Eventually(t, func() bool { _, err := d.Lookup(ctx, "127.0.0.1:1"); return err == nil }, 30*time.Second, time.Millisecond)
	require.NoError(t, d.Withdraw(ctx))
	assert.Never(t, func() bool { return s.Len() > 0 }, 10*time.Millisecond, time.Millisecond, "what was withdrawn stays away")
}

func TestNameTakenOverStaysWithItsNewOwner(t *testing.T) {
	s := memory.New(memory.Limits{})
	d := open(t, s, central.Options{LocalName: "127.0.0.1:1", Refresh: -1})
	ctx := t.Context()
	require.NoError(t, d.Publish(ctx, descriptor("127.0.0.1:1")))
	key := metadata.Keys{}.RPCMeta("127.0.0.1:1")
	require.NoError(t, s.Delete(ctx, key))
	require.NoError(t, s.Put(ctx, key, []byte(`{"ip_or_host_name":"other","rpc_port":5}`)))
	require.NoError(t, d.Close(ctx))
	assert.Equal(t, 2, s.Len())
}

// failingStore fails as long as it is told to.
type failingStore struct {
	metadata.Store
	down atomic.Bool
}

var errDown = errors.New("down")

func (s *failingStore) Get(ctx context.Context, k string) ([]byte, error) {
	if s.down.Load() {
		return nil, errDown
	}
	return s.Store.Get(ctx, k)
}

func (s *failingStore) Put(ctx context.Context, k string, v []byte) error {
	if s.down.Load() {
		return errDown
	}
	return s.Store.Put(ctx, k, v)
}

func TestServiceDown(t *testing.T) {
	closed := 0
	s := &failingStore{Store: memory.New(memory.Limits{})}
	d := open(t, s, central.Options{LocalName: "127.0.0.1:1", Refresh: time.Millisecond, OnClose: func() { closed++ }})
	ctx := t.Context()
	require.NoError(t, d.Publish(ctx, descriptor("127.0.0.1:1")))
	s.down.Store(true)
	_, err := d.Lookup(ctx, "127.0.0.1:1")
	assert.ErrorIs(t, err, errDown)
	assert.ErrorIs(t, d.Publish(ctx, descriptor("127.0.0.1:1")), errDown)
	assert.ErrorIs(t, d.Withdraw(ctx), errDown)
	assert.ErrorIs(t, d.Close(ctx), errDown, "it says what it left behind")
	assert.Equal(t, 1, closed)
	_, err = net.Dial("tcp", metadata.JoinName("127.0.0.1", d.Daemon().Port()))
	assert.Error(t, err, "the daemon has ended all the same")
}

func TestBadNames(t *testing.T) {
	for _, o := range []central.Options{{}, {LocalName: "0.0.0.0:1"}, {LocalName: "a b"}, {LocalName: "h:1", Host: "::"}} {
		_, err := central.Open(t.Context(), memory.New(memory.Limits{}), o)
		assert.Equal(t, errs.InvalidParams, errs.CodeOf(err), "%+v", o)
	}
}
