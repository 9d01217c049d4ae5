package etcd_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/cells"
	"github.com/mooncake-go/mooncake/core/ha"
	"github.com/mooncake-go/mooncake/core/ha/etcd"
	"github.com/mooncake-go/mooncake/core/metadata/storetest/etcdserver"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// TestTheNumberOfCells is what the first master says, and one where a leader said nothing.
func TestTheNumberOfCells(t *testing.T) {
	srv, ctx := etcdserver.New(t), t.Context()
	count := func(b *etcd.Backend) int {
		n, err := b.Count(ctx)
		require.NoError(t, err)
		return n
	}
	b := open(t, srv.Address, "c")
	require.Zero(t, count(b))
	require.NoError(t, b.Agree(ctx, 4))
	require.NoError(t, b.Agree(ctx, 4))
	require.Equal(t, 4, count(b))
	for _, other := range []int{1, 8} {
		err := b.Agree(ctx, other)
		require.Equal(t, errs.InvalidParams, errs.CodeOf(err), "%v", err)
		require.ErrorContains(t, err, "begun with 4")
	}
	r, err := raw(t, srv.Address).Get(ctx, "mooncake-go/c/cells")
	require.NoError(t, err)
	require.Equal(t, "4", string(r.Kvs[0].Value))

	one := open(t, srv.Address, "one")
	require.NoError(t, one.Agree(ctx, 1))
	require.Zero(t, count(one), "nothing has begun")
	l, err := one.Acquire(ctx, "10.0.0.1:50051")
	require.NoError(t, err)
	require.Equal(t, 1, count(one))
	require.NoError(t, one.Agree(ctx, 1))
	require.Equal(t, errs.InvalidParams, errs.CodeOf(one.Agree(ctx, 4)))
	require.NoError(t, l.Resign(ctx))

	_, err = raw(t, srv.Address).Put(ctx, "mooncake-go/c/cells", "many")
	require.NoError(t, err)
	_, err = b.Count(ctx)
	require.ErrorContains(t, err, "no number of cells")
}

// TestCellsAreLedApart: each has a leader of its own, and the cluster one, too.
func TestCellsAreLedApart(t *testing.T) {
	srv, ctx := etcdserver.New(t), t.Context()
	b := open(t, srv.Address, "c")
	for i, backend := range []ha.Backend{b, b.Cell(cells.Cluster("c", 0, 2)), b.Cell(cells.Cluster("c", 1, 2))} {
		address := []string{"a:1", "b:1", "c:1"}[i]
		l, err := backend.Acquire(ctx, address)
		require.NoError(t, err)
		v, err := backend.View(ctx)
		require.NoError(t, err)
		require.Equal(t, l.View(), v)
		require.Equal(t, address, v.Address)
		if i > 0 {
			backend.Close() // It has no connections of its own.
		}
		defer func() { require.NoError(t, l.Resign(ctx)) }()
	}
	r, err := raw(t, srv.Address).Get(ctx, "mooncake-store/c/cells/1/master_view")
	require.NoError(t, err)
	require.Equal(t, "c:1", string(r.Kvs[0].Value))
}

// TestMastersKnowEachOther: one that joins, says something else, or ends is known to the others.
func TestMastersKnowEachOther(t *testing.T) {
	srv := etcdserver.New(t)
	seen := make(chan []ha.Member, 64)
	var joined sync.WaitGroup
	join := func(self func() ha.Member, changed func([]ha.Member)) (leave func()) {
		ctx, cancel := context.WithCancel(t.Context())
		b := open(t, srv.Address, "c")
		done := make(chan struct{})
		joined.Go(func() {
			defer close(done)
			b.Join(ctx, self, changed)
		})
		return func() { cancel(); <-done }
	}
	await := func(want ...ha.Member) {
		t.Helper()
		limit := time.After(30 * time.Second)
		for {
			select {
			case got := <-seen:
				if len(want) == len(got) {
					require.Equal(t, want, got)
					return
				}
			case <-limit:
				require.Fail(t, "they are not seen")
			}
		}
	}
	a := ha.Member{Name: "a:1", Admin: "a:2", Cells: []ha.MemberCell{{Address: "a:3"}}}
	leave := join(func() ha.Member { return a }, func(all []ha.Member) { seen <- all })
	await(a)
	var mu sync.Mutex
	b := ha.Member{Name: "b:1", Admin: "b:2", Cells: []ha.MemberCell{{Address: "b:3", Follows: 7, Segments: 2}}}
	leaveB := join(func() ha.Member { mu.Lock(); defer mu.Unlock(); return b }, func([]ha.Member) {})
	await(a, b)
	mu.Lock()
	b.Admin = "b:9"
	mu.Unlock()
	await(a, b)
	leaveB()
	await(a)
	leave()
	joined.Wait()
}
