package store_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/internal/testkit/memtransport"
	"github.com/mooncake-go/mooncake/core/master"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/core/store/client"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

const segment = 24 << 20

func TestPutAndGet(t *testing.T) {
	p := newPool(t, nil)
	node := p.member("node:1", memberOptions{segments: []uint64{segment}})
	remote := p.member("remote:1", memberOptions{})
	for _, size := range []int{1, 4095, 1 << 20, 2<<20 + 3} {
		for _, c := range []*member{node, remote} {
			key := c.name + strings.Repeat("k", size%97+1)
			require.NoError(t, c.Put(t.Context(), key, content(key, size), one))
			for _, r := range []*member{node, remote} {
				got, err := r.Get(t.Context(), key)
				require.NoError(t, err)
				require.Equal(t, content(key, size), got)
				into := make([]byte, size+10)
				n, err := r.GetInto(t.Context(), key, into)
				require.NoError(t, err)
				require.Equal(t, content(key, size), into[:n])
				n64, err := r.Size(t.Context(), key)
				require.NoError(t, err)
				require.Equal(t, uint64(size), n64)
			}
		}
	}
	require.Equal(t, 4+16, node.count(t, "mooncake_client_local_copies_total"), "the node reads and writes its own memory by copying")
	require.Zero(t, node.wire.Dials())
	require.Zero(t, remote.count(t, "mooncake_client_local_copies_total"))
	require.NotZero(t, remote.count(t, "mooncake_transfer_read_bytes"))
}

func TestBatches(t *testing.T) {
	p := newPool(t, nil)
	p.member("node:1", memberOptions{segments: []uint64{segment, segment}})
	p.member("node:2", memberOptions{segments: []uint64{segment}})
	c := p.member("client:1", memberOptions{client: func(cfg *client.Config) { cfg.MaxBatch = 7 }})
	var keys []string
	var values [][]byte
	for i := range 50 {
		k := "k" + strings.Repeat("x", i)
		keys, values = append(keys, k), append(values, content(k, 1000*(i+1)))
	}
	for _, err := range c.BatchPut(t.Context(), keys, values, two()) {
		require.NoError(t, err)
	}
	ask := append([]string{"absent", ""}, keys...)
	exist := c.BatchExist(t.Context(), ask)
	require.False(t, exist[0].Value)
	require.True(t, errs.Is(exist[1].Err, errs.ObjectNotFound))
	for _, r := range exist[2:] {
		require.True(t, r.Value)
	}
	n, err := c.Prefix(t.Context(), append(append([]string{}, keys[:20]...), "gap", keys[20]))
	require.NoError(t, err)
	require.Equal(t, 20, n)

	dst := make([][]byte, len(keys))
	for i := range dst {
		dst[i] = make([]byte, len(values[i]))
	}
	for i, r := range c.BatchGetInto(t.Context(), keys, dst) {
		require.NoError(t, r.Err)
		require.Equal(t, values[i], dst[i][:r.Value])
	}
	got := c.BatchGet(t.Context(), []string{keys[3], "absent", keys[3], ""})
	require.Equal(t, values[3], got[0].Value)
	require.True(t, errs.Is(got[1].Err, errs.ObjectNotFound))
	require.Equal(t, values[3], got[2].Value, "a key may come twice")
	require.True(t, errs.Is(got[3].Err, errs.ObjectNotFound))

	listed, err := c.ListKeys(t.Context(), "^kx{0,4}$", "", 3)
	require.NoError(t, err)
	require.Equal(t, []string{"k", "kx", "kxx"}, listed)
	errsOf := c.BatchRemove(t.Context(), []string{keys[0], "absent", ""}, true)
	require.NoError(t, errsOf[0])
	require.True(t, errs.Is(errsOf[1], errs.ObjectNotFound))
	require.True(t, errs.Is(errsOf[2], errs.ObjectNotFound))
	count, err := c.RemoveByRegex(t.Context(), "^kx{1,4}$", true)
	require.NoError(t, err)
	require.Equal(t, 4, count)
	asked := p.tally()
	count, err = c.RemoveAll(t.Context(), true)
	require.NoError(t, err)
	require.Equal(t, 45, count)
	require.Equal(t, map[string]int{"RemoveAll": 1}, asked.take())
}

// TestQueryIntoMemoryOfTheCaller says the same whatever was in the memory, and whether one call
// takes the keys, or several, or none.
func TestQueryIntoMemoryOfTheCaller(t *testing.T) {
	p := newPool(t, nil)
	p.member("node:1", memberOptions{segments: []uint64{segment}})
	c := p.member("client:1", memberOptions{client: func(cfg *client.Config) { cfg.MaxBatch = 7 }})
	var keys []string
	for i := range 20 {
		keys = append(keys, fmt.Sprint("k", i))
		require.NoError(t, c.Put(t.Context(), keys[i], content(keys[i], i+1), one))
	}
	var a model.Answer[model.Object]
	for _, n := range []int{20, 3, 7, 8, 0, 1} {
		c.QueryTo(t.Context(), keys[:n], &a)
		require.Len(t, a.Results, n)
		for i, r := range a.Results {
			require.NoError(t, r.Err)
			require.EqualValues(t, i+1, r.Value.Size)
			require.Len(t, r.Value.Replicas, 1)
		}
	}
	c.QueryTo(t.Context(), []string{"absent", "k1", ""}, &a)
	require.Len(t, a.Results, 3)
	require.True(t, errs.Is(a.Results[0].Err, errs.ObjectNotFound))
	require.EqualValues(t, 2, a.Results[1].Value.Size)
	require.True(t, errs.Is(a.Results[2].Err, errs.ObjectNotFound))
	require.NoError(t, c.Close(t.Context()))
	c.QueryTo(t.Context(), keys[:2], &a)
	require.Len(t, a.Results, 2)
	for _, r := range a.Results {
		require.Error(t, r.Err)
		require.Empty(t, r.Value)
	}
	require.Error(t, c.BatchExist(t.Context(), keys[:1])[0].Err)
}

// curt answers for fewer keys than it is asked about.
type curt struct{ store.Master }

func (c curt) Exist(ctx context.Context, caller model.Caller, keys []model.Key) ([]model.Result[bool], error) {
	return c.Master.Exist(ctx, caller, keys[1:])
}

func (c curt) GetReplicas(ctx context.Context, caller model.Caller, keys []model.Key, into *model.Answer[model.Object]) ([]model.Result[model.Object], error) {
	return c.Master.GetReplicas(ctx, caller, keys[1:], into)
}

func TestAnswersThatAreTooShort(t *testing.T) {
	p, l := newLedgerPool(t)
	c := p.member("client:1", memberOptions{client: func(cfg *client.Config) { cfg.MaxBatch = 2 }})
	p.master.set(curt{l})
	for _, keys := range [][]string{{"a"}, {"a", "b"}, {"a", "b", "c"}} {
		for _, r := range c.BatchExist(t.Context(), keys) {
			require.True(t, errs.Is(r.Err, errs.RPCFail), "%v", r.Err)
		}
		for _, r := range c.Query(t.Context(), keys) {
			require.True(t, errs.Is(r.Err, errs.RPCFail), "%v", r.Err)
		}
	}
}

func TestPutOfAKeyThatIsThere(t *testing.T) {
	p := newPool(t, nil)
	c := p.member("node:1", memberOptions{segments: []uint64{segment}})
	require.NoError(t, c.Put(t.Context(), "a", []byte("first"), one))
	require.NoError(t, c.Put(t.Context(), "a", []byte("second"), one), "already there is a success")
	for _, err := range c.BatchPut(t.Context(), []string{"b", "a", "b", "c"}, [][]byte{[]byte("b1"), []byte("a3"), []byte("b2"), []byte("c1")}, one) {
		require.NoError(t, err)
	}
	for k, want := range map[string]string{"a": "first", "b": "b1", "c": "c1"} {
		got, err := c.Get(t.Context(), k)
		require.NoError(t, err)
		require.Equal(t, want, string(got))
	}
	require.Equal(t, 2, c.count(t, "mooncake_client_puts_existing_total"))
}

func TestBadInput(t *testing.T) {
	p := newPool(t, nil)
	c := p.member("node:1", memberOptions{segments: []uint64{segment}})
	long := strings.Repeat("k", 2<<20)
	require.NoError(t, c.Put(t.Context(), "good", content("good", 100), one))
	get := func(key string, dst []byte) error { _, err := c.GetInto(t.Context(), key, dst); return err }
	cases := []struct {
		name string
		err  error
		code errs.Code
		text string
	}{
		{"put: empty key", c.Put(t.Context(), "", []byte("v"), one), errs.InvalidParams, "empty"},
		{"put: 2 MiB key", c.Put(t.Context(), long, []byte("v"), one), errs.InvalidParams, "2097152 bytes"},
		{"put: empty value", c.Put(t.Context(), "k", nil, one), errs.InvalidParams, `put "k": INVALID_PARAMS: the value is empty`},
		{"put: more than the pool", c.Put(t.Context(), "k", make([]byte, 2*segment), one), errs.NoAvailableHandle, "50331648 bytes"},
		{"put: no copies", c.Put(t.Context(), "k", []byte("v"), model.ReplicateConfig{}), errs.InvalidParams, ""},
		{"put: keys without values", c.BatchPut(t.Context(), []string{"k", "l"}, nil, one)[1], errs.InvalidParams, "2 keys came with 0 values"},
		{"get: empty key", get("", nil), errs.ObjectNotFound, "empty"},
		{"get: 2 MiB key", get(long, nil), errs.InvalidParams, "2097152 bytes"},
		{"get: absent", get("absent", make([]byte, 1)), errs.ObjectNotFound, `"absent"`},
		{"get: small buffer", get("good", make([]byte, 99)), errs.InvalidParams, "100 bytes, the buffer 99"},
		{"get: keys without buffers", c.BatchGetInto(t.Context(), []string{"k"}, nil)[0].Err, errs.InvalidParams, "1 keys came with 0 buffers"},
		{"remove: absent", c.Remove(t.Context(), "absent", false), errs.ObjectNotFound, ""},
		{"remove: being read", c.Remove(t.Context(), "good", false), errs.ObjectHasLease, ""},
		{"register: empty", c.RegisterBuffer(t.Context(), nil, ""), errs.InvalidParams, "empty"},
		{"unregister: unknown", c.UnregisterBuffer(t.Context(), make([]byte, 1)), errs.InvalidParams, "no buffer"},
	}
	_, err := c.RemoveByRegex(t.Context(), "(", false)
	require.True(t, errs.Is(err, errs.InvalidParams))
	_, err = c.ListKeys(t.Context(), "", "", 0)
	require.True(t, errs.Is(err, errs.InvalidParams))
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			require.Equal(t, tc.code, errs.CodeOf(tc.err), "%v", tc.err)
			require.ErrorContains(t, tc.err, tc.text)
		})
	}
	require.False(t, store.IsMiss(get("good", nil)))
	require.True(t, store.IsMiss(get("absent", nil)))
	got, err := c.Get(t.Context(), "good")
	require.NoError(t, err)
	require.Equal(t, content("good", 100), got, "other users are not disturbed")
}

func TestObjectLargerThanTheBound(t *testing.T) {
	p := newPool(t, nil)
	c := p.member("node:1", memberOptions{segments: []uint64{segment}, client: func(cfg *client.Config) { cfg.MaxObjectSize = 99 }})
	require.NoError(t, c.Put(t.Context(), "k", content("k", 100), one))
	_, err := c.Get(t.Context(), "k")
	require.True(t, errs.Is(err, errs.BufferOverflow), "%v", err)
	_, err = c.GetInto(t.Context(), "k", make([]byte, 100))
	require.NoError(t, err)
}

func TestFailedPutIsRevoked(t *testing.T) {
	p := newPool(t, nil)
	p.member("node:1", memberOptions{segments: []uint64{segment}})
	c := p.member("client:1", memberOptions{})
	permanent := errs.New(errs.InvalidWrite, "test", "refused")
	c.wire.SetHook(func(e memtransport.Event) memtransport.Fault {
		if e.Kind == transport.Write && e.N == 2 {
			return memtransport.Fault{Err: permanent, Partial: true}
		}
		return memtransport.Fault{}
	})
	keys := []string{"a", "b", "c"}
	got := c.BatchPut(t.Context(), keys, [][]byte{content("a", 100), content("b", 100), content("c", 100)}, one)
	require.NoError(t, got[0])
	require.True(t, errs.Is(got[1], errs.TransferFail), "%v", got[1])
	require.NoError(t, got[2])
	_, err := c.Get(t.Context(), "b")
	require.True(t, errs.Is(err, errs.ObjectNotFound), "the space was given back: %v", err)
	require.NoError(t, c.Put(t.Context(), "b", content("b", 100), one), "and the key is free")
}

// A put that gave way to another one of the same client must not make that one's memory
// readable, which is still being written.
func TestOverduePutFails(t *testing.T) {
	p := newPool(t, func(c *master.Config) { c.PutDiscardTimeout = 1 })
	p.member("node:1", memberOptions{segments: []uint64{segment}})
	c := p.member("client:1", memberOptions{})
	p.master.setHook(func(k call) error {
		if k.name == "PutEnd" {
			p.master.setHook(nil)
			got, err := p.master.PutStart(t.Context(), model.Caller{Client: c.deps.ID}, []model.PutItem{{Key: "k", Size: 100}}, one, nil)
			require.NoError(t, err)
			require.NoError(t, got[0].Err)
		}
		return nil
	})
	err := c.Put(t.Context(), "k", content("k", 100), one)
	require.True(t, errs.Is(err, errs.InvalidWrite), "%v", err)
	_, err = c.Get(t.Context(), "k")
	require.True(t, errs.Is(err, errs.ReplicaIsNotReady), "%v", err)
}

func TestMasterFailsInTheMiddleOfAPut(t *testing.T) {
	for _, name := range []string{"PutStart", "PutEnd"} {
		p := newPool(t, nil)
		c := p.member("node:1", memberOptions{segments: []uint64{segment}})
		p.master.setHook(func(k call) error {
			if k.name == name {
				return errDown
			}
			return nil
		})
		for _, err := range c.BatchPut(t.Context(), []string{"a", "b"}, [][]byte{[]byte("1"), []byte("2")}, one) {
			require.True(t, errs.Is(err, errs.RPCFail), "%v", err)
			require.False(t, store.IsMiss(err))
		}
		_, err := c.Get(t.Context(), "a")
		require.True(t, store.IsMiss(err), "%v", err)
	}
}

// TestCancelledPutLeavesNothingUnfinished: the key is free again at once, not after the
// master's timeout.
func TestCancelledPutLeavesNothingUnfinished(t *testing.T) {
	p := newPool(t, nil)
	p.member("node:1", memberOptions{segments: []uint64{segment}})
	c := p.member("client:1", memberOptions{})
	ctx, cancel := context.WithCancel(t.Context())
	p.master.setHook(func(k call) error {
		if k.name == "PutStart" {
			cancel()
		}
		return nil
	})
	_ = c.Put(ctx, "k", content("k", 100), one) // It may have been in time.
	p.master.setHook(nil)
	require.NoError(t, c.Put(t.Context(), "k", content("k", 100), one))
	got, err := c.Get(t.Context(), "k")
	require.NoError(t, err)
	require.Equal(t, content("k", 100), got)
}
