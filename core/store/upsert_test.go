package store_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

var tctx = context.Background()

func TestUpsert(t *testing.T) {
	p, _ := newLedgerPool(t)
	a := p.member("a:1", memberOptions{segments: []uint64{segment}})
	c := p.member("c:1", memberOptions{})
	require.NoError(t, c.Upsert(t.Context(), "k", []byte("first"), one), "a new key is put")
	require.NoError(t, a.Upsert(t.Context(), "k", []byte("the second value"), one))
	require.NoError(t, c.Put(t.Context(), "k", []byte("third"), one), "and a put changes nothing")
	got, err := c.Get(t.Context(), "k")
	require.NoError(t, err)
	require.Equal(t, "the second value", string(got))
	require.NoError(t, c.UpsertParts(t.Context(), "k", [][]byte{[]byte("in "), nil, []byte("parts")}, one))
	for _, err := range c.BatchUpsert(t.Context(), []string{"l", "m", "l"}, [][]byte{nil, []byte("m"), []byte("last")}, one) {
		require.NoError(t, err, "of several values the last counts")
	}
	for k, want := range map[string]string{"k": "in parts", "l": "last", "m": "m"} {
		got, err := a.Get(t.Context(), k)
		require.NoError(t, err)
		require.Equal(t, want, string(got))
	}
}

// TestPutItems: what a caller is told of each object, and what reaches the master.
func TestPutItems(t *testing.T) {
	p, l := newLedgerPool(t)
	c := p.member("a.example:1", memberOptions{segments: []uint64{segment}})
	require.NoError(t, c.Put(t.Context(), "there", []byte("x"), one))
	got := c.PutItems(t.Context(), []store.Item{
		{Key: "there", Parts: [][]byte{[]byte("y")}},
		{Key: "new", Parts: [][]byte{[]byte("a"), []byte("b")}, Group: "layer"},
		{Key: "empty", Parts: [][]byte{nil, {}}},
	}, one)
	require.Equal(t, store.PutResult{Existed: true}, got[0])
	require.Equal(t, store.PutResult{}, got[1])
	require.True(t, errs.Is(got[2].Err, errs.InvalidParams))
	s, err := c.Why(t.Context(), "new")
	require.NoError(t, err)
	require.Equal(t, "layer", s.Group)
	require.Equal(t, c.deps.ID, s.Creator)
	seen := make(chan model.ReplicateConfig, 1)
	p.master.set(spy{l, seen})
	ttl := time.Minute
	cfg := model.ReplicateConfig{ReplicaNum: 2, PreferredSegments: []string{"s"}, SameNode: true, HardPin: true, DataType: model.DataTensor,
		SoftPin: model.SoftPin{Action: model.SoftPinEnable, TTL: &ttl}}
	require.NoError(t, c.Put(t.Context(), "spied", []byte("x"), cfg))
	cfg.HostID = "a.example"
	require.Equal(t, cfg, <-seen, "all of it, and the writer's host")
}

// spy passes the configuration of puts on.
type spy struct {
	*ledger
	seen chan model.ReplicateConfig
}

func (s spy) PutStart(ctx context.Context, c model.Caller, items []model.PutItem, cfg model.ReplicateConfig, _ *model.Answer[[]model.Replica]) ([]model.Result[[]model.Replica], error) {
	s.seen <- cfg
	return s.ledger.PutStart(ctx, c, items, cfg, nil)
}

func TestTenants(t *testing.T) {
	p, _ := newLedgerPool(t)
	p.member("a:1", memberOptions{segments: []uint64{segment}})
	of := func(name, tenant string) *member {
		return p.member(name, memberOptions{client: func(c *store.Config) { c.Tenant = tenant }})
	}
	x, y := of("x:1", "x"), of("y:1", "y")
	require.NoError(t, x.Put(t.Context(), "k", []byte("of x"), one))
	_, err := y.Get(t.Context(), "k")
	require.True(t, errs.Is(err, errs.ObjectNotFound))
	require.NoError(t, y.Put(t.Context(), "k", []byte("of y"), one))
	n, err := y.RemoveAll(t.Context(), true)
	require.NoError(t, err)
	require.Equal(t, 1, n)
	got, err := x.Get(t.Context(), "k")
	require.NoError(t, err)
	require.Equal(t, "of x", string(got))
	cfg := store.DefaultConfig()
	cfg.Tenant = "_all"
	require.True(t, errs.Is(cfg.Validate(), errs.InvalidParams))
}

func TestReplicaCalls(t *testing.T) {
	p, _ := newLedgerPool(t)
	a := p.member("a:1", memberOptions{segments: []uint64{segment}})
	b := p.member("b:1", memberOptions{})
	require.NoError(t, a.Put(t.Context(), "mine", []byte("1"), one))
	require.NoError(t, b.Put(t.Context(), "other", []byte("2"), one))
	keys, objects, err := a.QueryByRegex(t.Context(), "^[mo]", "", 10)
	require.NoError(t, err)
	require.Equal(t, []string{"mine", "other"}, keys)
	require.Equal(t, "a:1", objects[1].Value.Replicas[0].Segment)
	cleared, err := a.ClearReplicas(t.Context(), []string{"mine", "other", ""}, "")
	require.NoError(t, err)
	require.Equal(t, []string{"mine"}, cleared)
	for name, err := range map[string]error{
		"regex limit": func() error { _, _, err := a.QueryByRegex(t.Context(), "", "", 0); return err }(),
		"why":         func() error { _, err := a.Why(t.Context(), ""); return err }(),
	} {
		require.True(t, errs.Is(err, errs.InvalidParams), "%s: %v", name, err)
	}
	for name, err := range map[string]error{
		"copy": func() error { _, err := a.CreateCopyTask(t.Context(), "", nil); return err }(),
		"move": func() error { _, err := a.CreateMoveTask(t.Context(), "", "a", "b"); return err }(),
	} {
		require.True(t, errs.Is(err, errs.ObjectNotFound), "%s of an empty key: %v", name, err)
	}
	_, err = a.QueryTask(t.Context(), model.NewUUID())
	require.True(t, errs.Is(err, errs.TaskNotFound))
	require.NoError(t, b.Close(t.Context()))
	_, err = b.QueryTask(t.Context(), model.NewUUID())
	require.ErrorIs(t, err, store.ErrClosed)
	_, err = b.ClearReplicas(t.Context(), nil, "")
	require.ErrorIs(t, err, store.ErrClosed)
}
