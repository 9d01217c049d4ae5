package wheels

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// Error codes of upstream.
const (
	noSpace  = -200
	notFound = -704
	leased   = -706
)

// pool is a master, and two clients of one version that have memory.
type pool struct {
	version string
	master  *master
	a, b    *client
}

// TestCalls: each version makes every call.
func TestCalls(t *testing.T) {
	for _, version := range versions {
		t.Run(version, func(t *testing.T) {
			wheels(t)
			// A client that has closed does not time out meanwhile: it takes its segment with it.
			p := &pool{version: version, master: startMaster(t, version, "--client_ttl=3600")}
			if !run(t, version, "set-up without memory", p.setupWithout) || !run(t, version, "set-up with memory", p.setupWith(t)) {
				return
			}
			run(t, version, "put and get", p.putAndGet)
			run(t, version, "two clients", p.twoClients)
			run(t, version, "batches", p.batches)
			run(t, version, "multi buffers", p.multiBuffers)
			run(t, version, "exist", p.exist)
			run(t, version, "remove", p.remove)
			run(t, version, "replicas", p.replicas)
			run(t, version, "configuration", p.configuration)
			if since(version, "0.3.10.post2") {
				run(t, version, "copy", p.copy)
				run(t, version, "ranges", p.ranges)
			}
			run(t, version, "memory", p.memory)
			if since(version, "0.3.10.post2") {
				run(t, version, "upsert", p.upsert)
				if !control { // Upstream's master holds what an upsert replaced for put_start_release_timeout, 10 minutes.
					run(t, version, "memory after upserts", p.memory)
				}
			}
			run(t, version, "close", p.close)
		})
	}
}

// wheels skips a test where there are no wheels.
func wheels(t *testing.T) {
	t.Helper()
	if absent != "" {
		t.Skip(absent)
	}
}

// setupWithout: a client that gives no memory finds an empty pool.
func (p *pool) setupWithout(c *check) {
	u := startClient(c, p.version, p.master, 0)
	require.Empty(c, p.master.segments(c))
	require.Equal(c, []int{0}, u.exist(c, "is_exist", "nothing"))
	require.Equal(c, []*value{nil}, u.get(c, "get", objects("nothing", 1, 10)))
	rc := u.put(c, "put", nil, objects("nowhere", 1, 10))
	require.Equal(c, []int{noSpace}, rc)
	u.close(c)
}

// setupWith: the segments of two clients are in the pool. The clients end with t.
func (p *pool) setupWith(t *testing.T) func(c *check) {
	return func(c *check) {
		p.a = startClient(t, p.version, p.master, segment)
		require.Equal(c, []string{p.a.name}, p.master.segments(c))
		used, capacity := p.master.space(c, p.a.name)
		require.Zero(c, used)
		require.Equal(c, segment, capacity)
		p.b = startClient(t, p.version, p.master, segment)
		names := []string{p.a.name, p.b.name}
		slices.Sort(names)
		require.Equal(c, names, p.master.segments(c))
	}
}

// empty removes all objects. The memory of those that were read may stay in use for as long as their leases last.
func (p *pool) empty(c *check) {
	c.Helper()
	p.a.remove(c, "remove_all", true)
}

// memory: nothing is lost of what the checks before this one used.
func (p *pool) memory(c *check) {
	p.empty(c)
	until(c, "the memory of removed objects is free", func() bool { return p.master.used(c) == 0 })
}

// putAndGet: sizes from 1 B to 15 MiB, by each way to put and to get.
func (p *pool) putAndGet(c *check) {
	sizes := []int{1, 7, 4095, 64 << 10, 1<<20 + 3, 15 << 20}
	for _, how := range []string{"put", "put_from", "put_parts"} {
		some := objects("one/"+how, 1, sizes...)
		if how == "put_parts" {
			some = some[1:] // A part has to have bytes.
		}
		p.a.mustPut(c, how, nil, some)
		for _, how := range []string{"get", "get_into", "get_buffer"} {
			p.b.mustGet(c, how, some)
		}
		keys, lengths := columns(some)
		require.Equal(c, lengths, p.b.call(c, map[string]any{"call": "sizes", "keys": keys}).RCs)
	}
	first := objects("one/put", 1, sizes...)
	p.b.mustPut(c, "put", nil, objects("one/put", 2, sizes...))
	p.a.mustGet(c, "get", first) // An object that is there stays what it is.
	p.empty(c)
}

// twoClients: each reads what the other put, wherever it lies, and a third one without memory
// does both.
func (p *pool) twoClients(c *check) {
	third := startClient(c, p.version, p.master, 0)
	all := []*client{p.a, p.b, third}
	var put [][]object
	for i, u := range all {
		for j, node := range []*client{p.a, p.b} {
			some := objects(fmt.Sprintf("two/%d/%d", i, j), 1, 100, 70_000, 2<<20)
			u.mustPut(c, "put_from", map[string]any{"preferred_segment": node.name}, some)
			put = append(put, some)
		}
	}
	for _, u := range all {
		for _, some := range put {
			u.mustGet(c, "get_into", some)
		}
	}
	third.close(c)
	p.empty(c)
}

// batches: of many sizes, of some that are not there, and so large that counts need two bytes.
func (p *pool) batches(c *check) {
	var sizes []int
	for i := range 40 {
		sizes = append(sizes, 1+i*i*97)
	}
	for _, how := range []string{"put_batch", "batch_put_from"} {
		some := objects("batch/"+how, 1, sizes...)
		p.a.mustPut(c, how, nil, some)
		for _, how := range []string{"get_batch", "batch_get_into", "batch_get_buffer"} {
			p.b.mustGet(c, how, some)
		}
		mixed := []object{some[3], {"batch/missing", 1, 10}, some[5]}
		for _, how := range []string{"batch_get_into", "batch_get_buffer"} {
			require.Equal(c, []*value{some[3].value(), nil, some[5].value()}, p.b.get(c, how, mixed), how)
		}
	}
	many := objects("batch/many", 1, slices.Repeat([]int{300}, 300)...)
	p.a.mustPut(c, "batch_put_from", nil, many)
	p.b.mustGet(c, "batch_get_into", many)
	require.Equal(c, slices.Repeat([]int{0}, 300), p.a.put(c, "batch_put_from", nil, many), "what is there stays")
	p.empty(c)
}

// multiBuffers: objects of which each is put from two buffers and got into two.
func (p *pool) multiBuffers(c *check) {
	some := objects("multi", 1, 3, 5000, 300_001, 1<<20)
	p.a.mustPut(c, "batch_put_from_multi_buffers", nil, some)
	p.b.mustGet(c, "batch_get_into_multi_buffers", some)
	p.b.mustGet(c, "get_into", some)
	p.empty(c)
}

func (p *pool) exist(c *check) {
	some := objects("exist", 1, 10, 20)
	p.a.mustPut(c, "put", nil, some)
	for _, how := range []string{"is_exist", "batch_is_exist"} {
		require.Equal(c, []int{1, 0, 1}, p.b.exist(c, how, some[0].key, "exist/no", some[1].key), how)
	}
	p.a.remove(c, "remove", true, some[0].key)
	require.Equal(c, []int{0, 1}, p.b.exist(c, "batch_is_exist", some[0].key, some[1].key))
	p.empty(c)
}

// remove: what is not there, what a read protects and for how long, and the ways to remove many.
func (p *pool) remove(c *check) {
	some := objects("remove", 1, slices.Repeat([]int{1000}, 10)...)
	key := func(i int) string { return some[i].key }
	p.a.mustPut(c, "batch_put_from", nil, some)
	p.b.mustGet(c, "get_into", some[:1])
	require.Equal(c, []int{leased, 0, notFound}, p.a.remove(c, "remove", false, key(0), key(1), "remove/no"))
	require.Equal(c, []int{2}, p.a.remove(c, "remove_by_regex", false, "^remove/[23]$"), "remove_by_regex counts")
	until(c, "the lease of a read is over", func() bool {
		rc := p.a.remove(c, "remove", false, key(0))[0]
		require.Contains(c, []int{leased, 0}, rc)
		return rc == 0
	})
	require.Equal(c, []int{0}, p.a.remove(c, "remove", true, key(4)))
	if since(p.version, "0.3.10.post2") {
		require.Equal(c, []int{0, notFound}, p.a.remove(c, "batch_remove", true, key(5), key(4)))
		p.a.mustPut(c, "put", nil, some[5:6])
	}
	p.b.mustGet(c, "get_into", some[5:6])
	require.Equal(c, []int{4}, p.a.remove(c, "remove_all", false), "remove_all leaves what is read")
	require.Equal(c, []int{1}, p.a.remove(c, "remove_all", true))
	require.Equal(c, slices.Repeat([]int{0}, 10), p.b.exist(c, "batch_is_exist", key(0), key(1), key(2), key(3), key(4), key(5), key(6), key(7), key(8), key(9)))
	p.empty(c)
}

// place is the endpoint of a client's segment, as replicas name it: that of its transfer engine.
func (p *pool) place(c *check, u *client) string {
	c.Helper()
	o := objects("place/"+u.name, 1, 5000)
	p.a.mustPut(c, "put_from", map[string]any{"preferred_segment": u.name}, o)
	got := p.b.replicas(c, "get_replica_desc", o[0].key)[0]
	require.Len(c, got, 1)
	require.Equal(c, replica{Complete: true, Endpoint: got[0].Endpoint, Size: 5000}, got[0])
	return got[0].Endpoint
}

// replicas: two of an object lie in two segments, one lies where its put preferred, and each is
// described.
func (p *pool) replicas(c *check) {
	a, b := p.place(c, p.a), p.place(c, p.b)
	require.NotEqual(c, a, b)
	some := objects("replicas", 1, 10, 1<<20)
	p.a.mustPut(c, "put_from", map[string]any{"replica_num": 2}, some)
	for _, how := range []string{"get_replica_desc", "batch_get_replica_desc"} {
		got := p.b.replicas(c, how, some[0].key, some[1].key, "replicas/no")
		for i, o := range some {
			require.ElementsMatch(c, []replica{{true, a, o.size}, {true, b, o.size}}, got[i], how)
		}
		require.Empty(c, got[2], how)
	}
	p.b.mustGet(c, "get", some)
	p.empty(c)
}

// configuration: each setting of a put that a version has is taken, by single puts and batches.
func (p *pool) configuration(c *check) {
	configs := []map[string]any{
		{"preferred_segments": []string{p.b.name, p.a.name}}, {"replica_num": 2, "preferred_segments": []string{p.b.name}},
	}
	if since(p.version, "0.3.13.post1") {
		configs = append(configs, map[string]any{"soft_pin_action": "ENABLE"}, map[string]any{"soft_pin_action": "ENABLE", "soft_pin_ttl_ms": 60_000})
	} else {
		configs = append(configs, map[string]any{"with_soft_pin": true})
	}
	if since(p.version, "0.3.10.post2") {
		configs = append(configs, map[string]any{"with_hard_pin": true})
	}
	if since(p.version, "0.3.11.post1") {
		configs = append(configs, map[string]any{"data_type": "TENSOR"})
	}
	if since(p.version, "0.3.12.post1") {
		configs = append(configs, map[string]any{"group_ids": []string{"page", "page"}})
	}
	for i, config := range configs {
		some := objects(fmt.Sprintf("configuration/%d", i), 1, 1000, 2000)
		p.a.mustPut(c, "batch_put_from", config, some)
		p.b.mustGet(c, "batch_get_into", some)
		if config["group_ids"] == nil { // One for each object.
			one := objects(fmt.Sprintf("configuration/one/%d", i), 1, 3000)
			p.a.mustPut(c, "put", config, one)
			p.b.mustGet(c, "get", one)
		}
	}
	together := objects("configuration/together", 1, 1000, 2000) // Upstream's client takes this setting there only.
	p.a.mustPut(c, "batch_put_from_multi_buffers", map[string]any{"prefer_alloc_in_same_node": true}, together)
	p.b.mustGet(c, "batch_get_into", together)
	c.notef("%d settings", len(configs)+1)
	p.empty(c)
}

// copy: a task copies an object to the other segment. The client that owns the first one does it.
func (p *pool) copy(c *check) {
	a, b := p.place(c, p.a), p.place(c, p.b)
	o := objects("copy", 1, 500_000)
	p.a.mustPut(c, "put_from", map[string]any{"preferred_segment": p.a.name}, o)
	task := p.b.call(c, map[string]any{"call": "copy", "key": o[0].key, "targets": []string{p.b.name}})
	require.Equal(c, []int{0}, task.RCs)
	require.Equal(c, "SUCCESS", task.Name)
	require.ElementsMatch(c, []replica{{true, a, o[0].size}, {true, b, o[0].size}}, p.b.replicas(c, "get_replica_desc", o[0].key)[0])
	p.b.mustGet(c, "get", o)
	p.empty(c)
}

// ranges of an object are what lies there in the whole of it.
func (p *pool) ranges(c *check) {
	o := objects("ranges", 1, 1<<20)[0]
	p.a.mustPut(c, "put_from", nil, []object{o})
	offsets, sizes := []int{0, 1000, 1<<20 - 7}, []int{1, 70_000, 7}
	a := p.b.call(c, map[string]any{"call": "ranges", "key": o.key, "offsets": offsets, "sizes": sizes})
	require.Equal(c, sizes, a.RCs)
	whole := o.content()
	for i, v := range a.Values {
		require.Equal(c, digest(whole[offsets[i]:][:sizes[i]]), v, "%d bytes at %d", sizes[i], offsets[i])
	}
	p.empty(c)
}

// upsert: of a new key, of the same size, of another one, and of many.
func (p *pool) upsert(c *check) {
	for _, how := range []string{"upsert", "upsert_from", "upsert_parts", "upsert_batch", "batch_upsert_from"} {
		for generation, size := range []int{1000, 1000, 70_000, 10} {
			some := objects("upsert/"+how, generation+1, size, 2*size)
			p.a.mustPut(c, how, nil, some)
			p.b.mustGet(c, "get", some)
		}
	}
	p.empty(c)
}

// close: the segment of a client that closes leaves the pool with what lies there, and the other
// one goes on.
func (p *pool) close(c *check) {
	there, here := objects("close/b", 1, 1000, 100_000), objects("close/a", 1, 1000, 100_000)
	p.a.mustPut(c, "put_from", map[string]any{"preferred_segment": p.b.name}, there)
	p.a.mustPut(c, "put_from", map[string]any{"preferred_segment": p.a.name}, here)
	p.b.close(c)
	until(c, "the segment has left", func() bool { return slices.Equal([]string{p.a.name}, p.master.segments(c)) })
	require.Equal(c, []*value{nil, nil}, p.a.get(c, "get", there))
	p.a.mustGet(c, "get", here)
	p.a.mustPut(c, "put", nil, objects("close/new", 1, 1000))
	p.a.close(c)
	until(c, "no segment is left", func() bool { return len(p.master.segments(c)) == 0 })
}
