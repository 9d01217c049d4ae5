package app

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/mooncake-go/mooncake/core/api/rest"
	rpcclient "github.com/mooncake-go/mooncake/core/api/rpc/client"
	"github.com/mooncake-go/mooncake/core/cells"
	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/metadata/storetest"
	"github.com/mooncake-go/mooncake/core/metadata/storetest/etcdserver"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/store"
	arena "github.com/mooncake-go/mooncake/plugins/alloc-arena"
	prefix "github.com/mooncake-go/mooncake/plugins/evict-prefix"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

const testCells = 4

func startCelled(t *testing.T, etcd string, change ...func(*config.Master)) *candidate {
	t.Helper()
	return startCandidate(t, etcd, append([]func(*config.Master){func(m *config.Master) { m.Cells = testCells }}, change...)...)
}

// cellLeaders returns which of the masters leads each cell, by its RPC address, "" for none.
func cellLeaders(t *testing.T, etcd string) []string {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{etcd}, Logger: zap.NewNop()})
	require.NoError(t, err)
	defer c.Close() //nolint:errcheck // It was read.
	r, err := c.Get(t.Context(), "mooncake-go/mooncake_cluster/masters/", clientv3.WithPrefix())
	require.NoError(t, err)
	of := map[string]string{} // master by the address of a cell
	for _, kv := range r.Kvs {
		var m struct {
			Cells []struct{ Address string }
		}
		require.NoError(t, json.Unmarshal(kv.Value, &m))
		for _, cell := range m.Cells {
			of[cell.Address] = strings.TrimPrefix(string(kv.Key), "mooncake-go/mooncake_cluster/masters/")
		}
	}
	out := make([]string, testCells)
	for i := range out {
		r, err := c.Get(t.Context(), fmt.Sprintf("mooncake-store/mooncake_cluster/cells/%d/master_view", i))
		require.NoError(t, err)
		for _, kv := range r.Kvs {
			out[i] = of[string(kv.Value)]
		}
	}
	return out
}

// awaitLed waits until the cells are led as they should be among these masters.
func awaitLed(t *testing.T, etcd string, masters ...*candidate) {
	t.Helper()
	var names []string
	for _, m := range masters {
		names = append(names, m.rpc)
	}
	var want []string
	for i := range testCells {
		want = append(want, cells.Order(names, i, testCells)[0])
	}
	var got []string
	require.Eventually(t, func() bool {
		got = cellLeaders(t, etcd)
		return fmt.Sprint(got) == fmt.Sprint(want)
	}, time.Minute, 50*time.Millisecond, "want %v", want)
}

// TestThreeMastersLeadFourCells: the leaders of the cells, what clients with and without etcd see, a master that ends and one that joins.
func TestThreeMastersLeadFourCells(t *testing.T) {
	const keys = 200
	srv, ctx, one := etcdserver.New(t), t.Context(), model.DefaultReplicateConfig()
	a, b := startCelled(t, srv.Address), startCelled(t, srv.Address)
	awaitLed(t, srv.Address, a, b)
	node, err := OpenNode(ctx, nodeSettings(t, "etcd://"+srv.Address, func(s *config.Store) { s.GlobalSegmentSize = 64 * config.MiB }), builtins(), NodeOptions{Log: quiet})
	require.NoError(t, err)
	defer closeNode(t, node)
	require.Len(t, node.Node.Segments(), testCells)
	value := func(key string) []byte { return bytes.Repeat([]byte(key), 100) }
	var stored []string
	put := func(from int) {
		var items []store.Item
		for i := range keys {
			k := fmt.Sprint("key-", from+i)
			items = append(items, store.Item{Key: k, Value: [][]byte{value(k)}})
		}
		for i, r := range node.Client.PutItems(ctx, items, one) {
			require.NoError(t, r.Err, items[i].Key)
			stored = append(stored, items[i].Key)
		}
	}
	// all returns how many of the keys are there; each has its value.
	all := func(p store.Pool) (found int) {
		for i, got := range p.GetBuffers(ctx, stored, true) {
			if got.Err == nil {
				require.True(t, bytes.Equal(value(stored[i]), got.Value.Bytes()), stored[i])
				found++
			}
		}
		return found
	}
	put(0)
	require.Equal(t, keys, all(node.Client))
	listed, err := node.Client.ListKeys(ctx, "", "", 10*keys)
	require.NoError(t, err)
	require.Len(t, listed, keys)

	front, _ := awaitLeader(t, a, b)
	// knowing opens a client that knows addresses of masters only.
	knowing := func(masters string) *Node {
		n, err := OpenNode(ctx, nodeSettings(t, masters, func(s *config.Store) { s.GlobalSegmentSize = 0 }), builtins(), NodeOptions{Log: quiet})
		require.NoError(t, err)
		t.Cleanup(func() { closeNode(t, n) })
		return n
	}
	plain := knowing(a.rpc + "," + b.rpc)
	require.Equal(t, keys, all(plain.Client))
	require.NoError(t, plain.Client.Put(ctx, "plain", value("plain"), one))
	stored = append(stored, "plain")
	status, text := front.get("/get_all_keys")
	require.Equal(t, 200, status)
	require.Len(t, strings.Fields(text), len(stored))
	status, text = front.get("/query_key?key=plain&lease=false")
	require.Equal(t, 200, status, text)
	_, metrics := a.get("/metrics")
	_, more := b.get("/metrics")
	require.Equal(t, float64(len(stored)), metric(t, metrics, "master_key_count")+metric(t, more, "master_key_count"))

	c := startCelled(t, srv.Address)
	awaitLed(t, srv.Address, a, b, c)
	require.Eventually(t, func() bool { return all(node.Client) == len(stored) }, time.Minute, 20*time.Millisecond, "cells that move lose nothing")
	require.Eventually(t, func() bool {
		for i := range testCells {
			following := 0
			for _, m := range []*candidate{a, b, c} {
				_, text := m.get(fmt.Sprintf("/cells/%d/metrics", i))
				following += int(metric(t, text, "master_followed_segments"))
			}
			if following != 1 {
				return false
			}
		}
		return true
	}, time.Minute, 100*time.Millisecond, "one master follows each leader, and the third needs no memory")
	put(keys)
	a.end(t)
	awaitLed(t, srv.Address, b, c)
	require.Eventually(t, func() bool { return all(node.Client) == len(stored) }, time.Minute, 20*time.Millisecond)
	put(2 * keys)
	require.Equal(t, len(stored), all(knowing(a.rpc+","+b.rpc+","+c.rpc).Client), "it finds the front")
	n, err := node.Client.RemoveAll(ctx, true)
	require.NoError(t, err)
	require.Equal(t, len(stored), n)
}

func metric(t *testing.T, text, name string) (v float64) {
	t.Helper()
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, name+" "); ok {
			_, err := fmt.Sscan(rest, &v)
			require.NoError(t, err)
			return v
		}
	}
	require.Fail(t, "no "+name)
	return 0
}

// TestTheNumberOfCellsIsThatOfTheCluster: a master with another one does not start, whichever began the cluster.
func TestTheNumberOfCellsIsThatOfTheCluster(t *testing.T) {
	srv := etcdserver.New(t)
	refused := func(n int) {
		t.Helper()
		cfg := settings(t, func(c *config.Config) {
			m := &c.Master
			m.EnableHA, m.EtcdEndpoints, m.RPCAddress, m.MetricsHost, m.MetricsPort, m.Cells = true, srv.Address, "127.0.0.1", "127.0.0.1", 0, n
			_, port, err := net.SplitHostPort(storetest.FreeAddress(t))
			require.NoError(t, err)
			_, err = fmt.Sscan(port, &m.RPCPort)
			require.NoError(t, err)
		})
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, errors.New("it was not refused"))
		defer cancel()
		err := Run(ctx, quiet, Master(cfg, []plugin.Factory{arena.Factory(), prefix.Factory()}))
		require.Equal(t, errs.InvalidParams, errs.CodeOf(err), "%v", err)
		require.ErrorContains(t, err, "master.cells")
	}
	a := startCelled(t, srv.Address)
	awaitLed(t, srv.Address, a)
	refused(2)
	refused(1)
	a.end(t)
	refused(2)

	other := etcdserver.New(t)
	srv = other
	one := startCandidate(t, srv.Address)
	awaitLeader(t, one)
	refused(4)
}

// TestAClientBeforeTheMasters: it waits for them, and its memory is divided when the number of cells is known.
func TestAClientBeforeTheMasters(t *testing.T) {
	srv, ctx := etcdserver.New(t), t.Context()
	n, err := StartNode(ctx, nodeSettings(t, "etcd://"+srv.Address, func(s *config.Store) { s.GlobalSegmentSize = 32 * config.MiB }), builtins(), NodeOptions{Log: quiet})
	require.NoError(t, err)
	defer closeNode(t, n)
	require.Len(t, n.Node.Segments(), 1)
	a := startCelled(t, srv.Address)
	awaitLed(t, srv.Address, a)
	require.NoError(t, n.Await(ctx, time.Minute))
	require.Len(t, n.Node.Segments(), testCells)
	for i := range 20 {
		require.NoError(t, n.Client.Put(ctx, fmt.Sprint(i), []byte("v"), model.DefaultReplicateConfig()))
	}
	c, err := rpcclient.DialPool("etcd://"+srv.Address, rpcclient.Options{Cluster: "mooncake_cluster"})
	require.NoError(t, err)
	defer c.Close() //nolint:errcheck // The test ends.
	masters, err := c.Masters(ctx)
	require.NoError(t, err)
	require.Len(t, masters, testCells)
	segments := 0
	for _, m := range masters {
		require.Eventually(t, func() bool { _, err := m.Ready(ctx); return err == nil }, time.Minute, time.Millisecond)
		list, err := m.Segments(ctx)
		require.NoError(t, err)
		require.Len(t, list, 1, "each cell has memory of the node")
		segments += len(list)
	}
	require.Equal(t, testCells, segments)
}

// TestTheAdminPortShowsOnePool: quotas and drain jobs are those of all cells, whichever master is asked.
func TestTheAdminPortShowsOnePool(t *testing.T) {
	srv, ctx, one := etcdserver.New(t), t.Context(), model.DefaultReplicateConfig()
	tenants := func(m *config.Master) {
		m.HALeaseTTL = time.Minute // On a busy machine, too, each cell keeps its leader: drain jobs end with it.
		m.EnableMultiTenants, m.TenantQuotaConnectorURI = true, filepath.Join(t.TempDir(), "quotas.yaml")
		require.NoError(t, os.WriteFile(m.TenantQuotaConnectorURI, []byte("version: 1\ntenants: [{name: default, quota: 64MB}]\n"), 0o600))
	}
	a, b := startCelled(t, srv.Address, tenants), startCelled(t, srv.Address, tenants)
	awaitLed(t, srv.Address, a, b)
	node := func() *Node {
		n, err := OpenNode(ctx, nodeSettings(t, "etcd://"+srv.Address, func(s *config.Store) { s.GlobalSegmentSize = 32 * config.MiB }), builtins(), NodeOptions{Log: quiet})
		require.NoError(t, err)
		t.Cleanup(func() { closeNode(t, n) })
		return n
	}
	from, to := node(), node()
	const keys, size = 64, 10000
	for i := range keys {
		require.NoError(t, from.Client.Put(ctx, fmt.Sprint(i), bytes.Repeat([]byte{byte(i)}, size), one))
	}
	for _, m := range []*candidate{a, b} {
		admin, err := rest.NewClient(nil, m.admin, 10*time.Second)
		require.NoError(t, err)
		defer admin.Close()
		q, err := admin.Quotas(ctx)
		require.NoError(t, err)
		require.Len(t, q, 1)
		require.EqualValues(t, 64<<20, q[0].Requested)
		require.GreaterOrEqual(t, q[0].Charged, uint64(keys*size))
		require.Equal(t, errs.TenantNotEmpty, errs.CodeOf(admin.DeleteQuota(ctx, "default")))
		set, err := admin.SetQuota(ctx, m.rpc, 1000)
		require.NoError(t, err)
		require.EqualValues(t, 1000, set.Requested)
		q, err = admin.Quotas(ctx)
		require.NoError(t, err)
		require.Len(t, q, 2)
		require.NoError(t, admin.DeleteQuota(ctx, m.rpc))
	}
	admin, err := rest.NewClient(nil, a.admin, 10*time.Second)
	require.NoError(t, err)
	defer admin.Close()
	name := from.Client.Hostname()
	_, err = admin.CreateDrainJob(ctx, rest.DrainRequest{Segments: []string{"unknown:1"}})
	require.Equal(t, errs.SegmentNotFound, errs.CodeOf(err), "%v", err)
	id, err := admin.CreateDrainJob(ctx, rest.DrainRequest{Segments: []string{name}})
	require.NoError(t, err)
	var job rest.Job
	require.Eventually(t, func() bool {
		job, err = admin.DrainJob(ctx, id)
		return err == nil && job.Name == "SUCCEEDED"
	}, time.Minute, 50*time.Millisecond, "%v", &job)
	require.Equal(t, []string{name}, job.Segments)
	list, err := admin.Segments(ctx)
	require.NoError(t, err)
	require.Len(t, list, 2*testCells)
	for _, s := range list {
		if s.Name == name {
			require.Zero(t, s.Used, "%+v", s)
		}
	}
	for i := range keys {
		got, err := to.Client.Get(ctx, fmt.Sprint(i))
		require.NoError(t, err)
		require.Equal(t, bytes.Repeat([]byte{byte(i)}, size), got)
	}
}
