package store_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/core/store/client"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// tally counts calls to the master by name, but for those that nodes make by themselves.
type tally struct {
	mu    sync.Mutex
	calls map[string]int
}

func (p *pool) tally() *tally {
	c := &tally{calls: map[string]int{}}
	p.master.setHook(func(k call) error {
		if k.name != "Ping" && k.name != "Ready" && k.name != "FetchTasks" && k.name != "RemountSegments" { // calls that keep a process known
			c.mu.Lock()
			c.calls[k.name]++
			c.mu.Unlock()
		}
		return nil
	})
	return c
}

// take returns what was counted since the last time.
func (c *tally) take() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := c.calls
	c.calls = map[string]int{}
	return out
}

// codes of errors, OK for none.
func codes(failed []error) []errs.Code {
	out := make([]errs.Code, len(failed))
	for i, err := range failed {
		if out[i] = errs.CodeOf(err); err == nil {
			out[i] = errs.OK
		}
	}
	return out
}

func write(key string, at int, b []byte) store.Ranges {
	return store.Ranges{Key: key, Fragments: []store.Fragment{{Offset: uint64(at), Mem: b}}}
}

func read(key string, at int, b []byte) store.Ranges {
	return store.Ranges{Key: key, Fragments: []store.Fragment{{Offset: uint64(at), Mem: b}}}
}

// putOne puts an object in one piece through a session.
func putOne(t *testing.T, m *member, key string, value []byte, cfg model.ReplicateConfig) {
	t.Helper()
	require.NoError(t, m.StartPuts(t.Context(), []string{key}, []uint64{uint64(len(value))}, cfg, nil)[0])
	require.NoError(t, m.PutRanges(t.Context(), []store.Ranges{write(key, 0, value)})[0].Err)
	require.NoError(t, m.EndPuts(t.Context(), []string{key})[0])
}

// TestLayersAskTheMasterTwice: once at the start and once at the end of many sessions, and
// never between. All layers of a call move together.
func TestLayersAskTheMasterTwice(t *testing.T) {
	const layer, count = 4000, 8
	p := newPool(t, nil)
	p.member("a:1", memberOptions{segments: []uint64{segment}})
	p.member("b:1", memberOptions{segments: []uint64{segment}})
	c := p.member("c:1", memberOptions{})
	asked := p.tally()
	var keys []string
	var sizes []uint64
	for i := range 20 {
		keys, sizes = append(keys, fmt.Sprint("page", i)), append(sizes, layer*count)
	}
	for _, err := range c.StartPuts(t.Context(), keys, sizes, two(), nil) {
		require.NoError(t, err)
	}
	require.Equal(t, map[string]int{"PutStart": 1}, asked.take())
	for n := range count {
		var writes []store.Ranges
		for _, k := range keys {
			writes = append(writes, write(k, n*layer, content(k, layer*count)[n*layer:(n+1)*layer]))
		}
		for _, r := range c.PutRanges(t.Context(), writes) {
			require.NoError(t, r.Err)
			require.Equal(t, layer, r.Value)
		}
	}
	require.Empty(t, asked.take())
	for _, err := range c.EndPuts(t.Context(), keys) {
		require.NoError(t, err)
	}
	require.Equal(t, map[string]int{"PutEnd": 1}, asked.take())
	require.Equal(t, 2*20*layer*count, c.count(t, "mooncake_transfer_write_bytes"), "to both copies")

	for _, err := range c.StartGets(t.Context(), keys) {
		require.NoError(t, err)
	}
	require.Equal(t, map[string]int{"GetReplicas": 1}, asked.take())
	dst := make([][]byte, len(keys))
	for n := range count {
		var reads []store.Ranges
		for i, k := range keys {
			if dst[i] == nil {
				dst[i] = make([]byte, layer*count)
			}
			reads = append(reads, read(k, n*layer, dst[i][n*layer:(n+1)*layer]))
		}
		for _, r := range c.GetRanges(t.Context(), reads) {
			require.NoError(t, r.Err)
			require.Equal(t, layer, r.Value)
		}
	}
	require.NoError(t, c.EndGets(t.Context(), keys))
	require.Empty(t, asked.take())
	for i, k := range keys {
		require.Equal(t, content(k, layer*count), dst[i])
	}
	for _, r := range c.BatchGet(t.Context(), keys) {
		require.NoError(t, r.Err, "with the checksum that was put together")
	}
	require.Zero(t, c.count(t, "mooncake_client_checksum_mismatches_total"))
	for _, r := range c.Query(t.Context(), keys) {
		require.Equal(t, model.ChecksumCRC32C, r.Value.Checksum.Kind)
	}
}

// TestLayersOverTCPAndGRPC is the whole way, several writers and readers at once.
func TestLayersOverTCPAndGRPC(t *testing.T) {
	c := newCluster(t)
	c.member(memberOptions{segments: []uint64{segment}})
	n := c.member(memberOptions{segments: []uint64{segment}})
	const size, layer = 600_000, 50_000
	var wg sync.WaitGroup
	for w, m := range []*member{n, c.member(memberOptions{}), c.member(memberOptions{})} {
		wg.Go(func() {
			k := fmt.Sprint("w", w)
			want, got := content(k, size), make([]byte, size)
			if err := m.StartPuts(t.Context(), []string{k}, []uint64{size}, two(), nil)[0]; err != nil {
				t.Error(err)
			}
			var layers sync.WaitGroup
			for at := 0; at < size; at += layer {
				layers.Go(func() {
					if r := m.PutRanges(t.Context(), []store.Ranges{write(k, at, want[at:at+layer])})[0]; r.Err != nil {
						t.Error(r.Err)
					}
				})
			}
			layers.Wait()
			if err := m.EndPuts(t.Context(), []string{k})[0]; err != nil {
				t.Error(err)
			}
			if err := m.StartGets(t.Context(), []string{k})[0]; err != nil {
				t.Error(err)
			}
			for at := 0; at < size; at += layer {
				layers.Go(func() {
					if r := m.GetRanges(t.Context(), []store.Ranges{read(k, at, got[at:at+layer])})[0]; r.Err != nil {
						t.Error(r.Err)
					}
				})
			}
			layers.Wait()
			if string(got) != string(want) {
				t.Error("wrong bytes of", k)
			}
		})
	}
	wg.Wait()
}

// TestCloseEndsSessions: puts that were not ended are revoked, by a user and by the client.
func TestCloseEndsSessions(t *testing.T) {
	p := newPool(t, nil)
	p.member("a:1", memberOptions{segments: []uint64{segment}})
	c, d := p.member("c:1", memberOptions{}), p.member("d:1", memberOptions{})
	ctx := t.Context()
	user := c.NewLayers()
	require.NoError(t, user.StartPuts(ctx, []string{"user's"}, []uint64{5}, one, nil)[0])
	require.NoError(t, c.StartPuts(ctx, []string{"client's"}, []uint64{5}, one, nil)[0])
	putOne(t, d, "there", []byte("v"), one)
	require.NoError(t, user.StartGets(ctx, []string{"there"})[0])
	require.NoError(t, c.StartGets(ctx, []string{"there"})[0])
	require.NoError(t, user.Close(ctx))
	require.Equal(t, []errs.Code{errs.OK, errs.ObjectAlreadyExists}, codes(d.StartPuts(ctx, []string{"user's", "client's"}, []uint64{5, 5}, one, nil)))
	b := make([]byte, 1)
	require.Equal(t, errs.InvalidParams, errs.CodeOf(user.GetRanges(ctx, []store.Ranges{read("there", 0, b)})[0].Err))
	require.NoError(t, c.GetRanges(ctx, []store.Ranges{read("there", 0, b)})[0].Err)
	require.NoError(t, c.Client.Close(ctx))
	require.NoError(t, d.StartPuts(ctx, []string{"client's"}, []uint64{5}, one, nil)[0])
	for _, err := range []error{
		c.StartPuts(ctx, []string{"k"}, []uint64{5}, one, nil)[0], c.EndPuts(ctx, []string{"k"})[0], c.RevokePuts(ctx, []string{"k"})[0],
		c.PutRanges(ctx, []store.Ranges{write("k", 0, b)})[0].Err, c.StartGets(ctx, []string{"k"})[0],
		c.GetRanges(ctx, []store.Ranges{read("k", 0, b)})[0].Err, c.EndGets(ctx, []string{"k"}),
	} {
		require.ErrorIs(t, err, store.ErrClosed)
	}
}

// TestOpenSessionsAreBounded, for each user by itself.
func TestOpenSessionsAreBounded(t *testing.T) {
	p := newPool(t, nil)
	p.member("a:1", memberOptions{segments: []uint64{segment}})
	c := p.member("c:1", memberOptions{client: func(c *client.Config) { c.Layers.MaxOpen = 2 }})
	ctx := t.Context()
	for _, k := range []string{"a", "b", "c"} {
		require.NoError(t, c.Put(ctx, k, []byte("v"), one))
	}
	require.Equal(t, []errs.Code{errs.OK, errs.OK, errs.OK, errs.UnavailableInCurrentStatus}, codes(c.StartGets(ctx, []string{"a", "b", "a", "c"})))
	require.Equal(t, errs.UnavailableInCurrentStatus, errs.CodeOf(c.StartPuts(ctx, []string{"d"}, []uint64{1}, one, nil)[0]))
	require.NoError(t, c.NewLayers().StartGets(ctx, []string{"c"})[0])
	require.NoError(t, c.EndGets(ctx, []string{"a", "a", "absent"}))
	require.NoError(t, c.StartPuts(ctx, []string{"d"}, []uint64{1}, one, nil)[0])
	require.NoError(t, c.RevokePuts(ctx, []string{"d"})[0])
	require.Equal(t, []errs.Code{errs.OK, errs.UnavailableInCurrentStatus}, codes(c.StartGets(ctx, []string{"c", "a"})))
}

// TestLostCopyIsReplaced: a read goes on with another copy.
func TestLostCopyIsReplaced(t *testing.T) {
	p := newPool(t, nil)
	a := p.member("a:1", memberOptions{segments: []uint64{segment}})
	b := p.member("b:1", memberOptions{segments: []uint64{segment}})
	c := p.member("c:1", memberOptions{})
	want := content("k", 5000)
	require.NoError(t, c.Put(t.Context(), "k", want, two()))
	require.NoError(t, c.StartGets(context.Background(), []string{"k"})[0])
	got := make([]byte, 5000)
	a.wire.Kill()
	for at := 0; at < 5000; at += 500 {
		require.NoError(t, c.GetRanges(t.Context(), []store.Ranges{read("k", at, got[at:at+500])})[0].Err)
	}
	require.Equal(t, want, got)
	b.wire.Kill()
	err := c.GetRanges(t.Context(), []store.Ranges{read("k", 0, got[:1])})[0].Err
	require.True(t, store.IsMiss(err), "%v", err)
}
