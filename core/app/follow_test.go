package app

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/ha"
	"github.com/mooncake-go/mooncake/core/ha/etcd"
	"github.com/mooncake-go/mooncake/core/metadata/storetest/etcdserver"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/store"
	arena "github.com/mooncake-go/mooncake/plugins/alloc-arena"
	lru "github.com/mooncake-go/mooncake/plugins/evict-lru"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

// cluster is an etcd in which the test lets masters lead.
type cluster struct {
	t       *testing.T
	backend *etcd.Backend
	address string // as clients give it
}

func newCluster(t *testing.T) *cluster {
	srv := etcdserver.New(t)
	c := &cluster{t: t, address: "etcd://" + srv.Address}
	var err error
	c.backend, err = etcd.New(c.address, "blue", etcd.Options{TTL: time.Minute}) // A leadership ends where the test ends it, not on a busy machine.
	require.NoError(t, err)
	t.Cleanup(c.backend.Close)
	return c
}

// settings are those of a node of the cluster.
func (c *cluster) settings(size config.Size) config.Config {
	return nodeSettings(c.t, c.address, func(s *config.Store) { s.ClusterID, s.GlobalSegmentSize = "blue", size })
}

// master starts a master, which does not lead yet.
func (c *cluster) master() *LocalMaster {
	loaded, err := config.Load(config.Options{Role: config.RoleMaster})
	require.NoError(c.t, err)
	loaded.Config.Master.Evictor = "lru"
	m, err := StartLocalMaster(c.t.Context(), loaded.Config, []plugin.Factory{lru.Factory(), arena.Factory()}, quiet)
	require.NoError(c.t, err)
	return m
}

func (c *cluster) lead(m *LocalMaster) ha.Leadership {
	l, err := c.backend.Acquire(c.t.Context(), m.Address())
	require.NoError(c.t, err)
	return l
}

// follows reports whether what a client puts, with a store of this pool, arrives at a master.
func (c *cluster) follows(r *Node, m *LocalMaster) bool {
	key := fmt.Sprint("follows-", time.Now().UnixNano())
	return r.Client.Put(c.t.Context(), key, []byte(key), model.DefaultReplicateConfig()) == nil && m.Service.PeekReplicas([]string{key})[0].Err == nil
}

// TestClientsAndStoresFollowTheLeader: after each change of the leader what was put before is there, a put that was
// open ends, and so do those that were in flight.
func TestClientsAndStoresFollowTheLeader(t *testing.T) {
	const keys, rounds = 50, 4
	c, ctx, one := newCluster(t), t.Context(), model.DefaultReplicateConfig()
	m := c.master()
	leadership := c.lead(m)
	node, err := OpenNode(ctx, c.settings(16*config.MiB), builtins(), NodeOptions{Log: quiet})
	require.NoError(t, err)
	defer closeNode(t, node)
	r, err := OpenNode(ctx, c.settings(0), builtins(), NodeOptions{Log: quiet})
	require.NoError(t, err)
	defer closeNode(t, r)

	layers := r.Client.Layers()
	value := func(key string) []byte { return bytes.Repeat([]byte(key), 1000) }
	var stored []string
	put := func(key string) {
		require.NoError(t, r.Client.Put(ctx, key, value(key), one))
		stored = append(stored, key)
	}
	for round := range rounds {
		for i := range keys {
			put(fmt.Sprintf("%d-%d", round, i))
		}
		layered := fmt.Sprint("layered-", round)
		half := len(value(layered)) / 2
		write := func(off int, part []byte) store.Ranges {
			return store.Ranges{Key: layered, Fragments: []store.Fragment{{Offset: uint64(off), Mem: part}}}
		}
		require.NoError(t, layers.StartPuts(ctx, []string{layered}, []uint64{uint64(2 * half)}, one, nil)[0])
		require.NoError(t, layers.PutRanges(ctx, []store.Ranges{write(0, value(layered)[:half])})[0].Err)

		next := c.master()
		if round%2 == 1 {
			require.NoError(t, m.Close(ctx), "this one dies first")
		}
		require.NoError(t, leadership.Resign(ctx))
		leadership = c.lead(next)
		began := time.Now()
		require.NoError(t, layers.PutRanges(ctx, []store.Ranges{write(half, value(layered)[half:])})[0].Err, "no master is needed for it")
		require.NoError(t, layers.EndPuts(ctx, []string{layered})[0])
		stored = append(stored, layered)
		ended := time.Since(began)
		// The leader before still answers, and loses its store: the client may read there until it has followed the next one.
		require.Eventually(t, func() bool { return c.follows(r, next) }, time.Minute, time.Millisecond)
		t.Logf("after the election: the open put ended within %v, a key was read within %v", ended.Round(time.Millisecond), time.Since(began).Round(time.Millisecond))
		for _, key := range stored {
			got, err := r.Client.Get(ctx, key)
			require.NoError(t, err, key)
			require.True(t, bytes.Equal(value(key), got), key)
		}
		if round%2 == 0 {
			require.NoError(t, m.Close(ctx))
		}
		m = next
	}
	require.NoError(t, leadership.Resign(ctx))
	require.NoError(t, m.Close(ctx))
}

// TestAPoolThatNoMasterLeads: calls fail at once and say so; a start waits, says for what, and goes on with the first
// leader.
func TestAPoolThatNoMasterLeads(t *testing.T) {
	c, ctx := newCluster(t), t.Context()
	var mu sync.Mutex
	var lines bytes.Buffer
	log := slog.New(slog.NewTextHandler(writer(func(b []byte) (int, error) {
		mu.Lock()
		defer mu.Unlock()
		return lines.Write(b)
	}), nil))
	n, err := StartNode(ctx, c.settings(16*config.MiB), builtins(), NodeOptions{Log: log})
	require.NoError(t, err)
	defer closeNode(t, n)
	err = n.Await(ctx, 0)
	require.Equal(t, errs.UnavailableInCurrentStatus, errs.CodeOf(err), "%v", err)
	require.ErrorContains(t, err, "no master leads cluster blue, says "+c.address)
	_, err = n.Client.Get(ctx, "k")
	require.Equal(t, errs.UnavailableInCurrentStatus, errs.CodeOf(err), "%v", err)

	var waiting sync.WaitGroup
	waiting.Go(func() { assert.NoError(t, n.Await(ctx, time.Minute)) })
	require.Eventually(t, func() bool {
		mu.Lock()
		defer mu.Unlock()
		return bytes.Contains(lines.Bytes(), []byte("waiting for the master")) && bytes.Contains(lines.Bytes(), []byte(c.address+", cluster blue"))
	}, time.Minute, time.Millisecond)
	m := c.master()
	l := c.lead(m)
	waiting.Wait()
	require.NoError(t, n.Client.Put(ctx, "k", []byte("v"), model.DefaultReplicateConfig()))
	require.NoError(t, l.Resign(ctx))
	require.Eventually(t, func() bool {
		_, err := n.Client.Get(ctx, "k")
		return errs.Is(err, errs.UnavailableInCurrentStatus)
	}, time.Minute, time.Millisecond)
	require.NoError(t, m.Close(context.Background()))
}

type writer func([]byte) (int, error)

func (w writer) Write(b []byte) (int, error) { return w(b) }
