package wheels

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestFaults: masters and nodes are killed under each version. The short form leaves out the masters, whose successors take the
// memory of nodes only after a minute; TestMigration has one of them.
func TestFaults(t *testing.T) {
	for _, version := range versions {
		t.Run(version, func(t *testing.T) {
			wheels(t)
			if full {
				run(t, version, "master killed", func(c *check) { masterKilled(c, version) })
			}
			run(t, version, "node killed", func(c *check) { nodeKilled(c, version) })
		})
	}
}

func startPool(c *check, version string, flags ...string) *pool {
	c.Helper()
	p := &pool{version: version, master: startMaster(c, version, flags...)}
	p.a, p.b = startClient(c, version, p.master, segment), startClient(c, version, p.master, segment)
	return p
}

// masterKilled: the clients fail while there is no master, and go on with the next one. They
// mount their segments there by themselves; objects may be gone.
func masterKilled(c *check, version string) {
	p := startPool(c, version)
	before := objects("before", 1, slices.Repeat([]int{50_000}, 20)...)
	p.a.mustPut(c, "batch_put_from", nil, before)
	p.b.mustGet(c, "batch_get_into", before)
	names := p.master.segments(c)

	p.master.proc.Kill()
	require.Equal(c, []*value{nil}, p.b.get(c, "get", before[:1]))
	require.Negative(c, p.a.put(c, "put_from", nil, objects("meanwhile", 1, 1000))[0])

	p.master.start(c)
	until(c, "the segments are mounted again", func() bool { return slices.Equal(names, p.master.segments(c)) })
	tries := 0
	until(c, "a put succeeds", func() bool {
		tries++
		return p.a.put(c, "put_from", nil, objects("after", 1, 50_000))[0] == 0
	})
	until(c, "a get succeeds", func() bool { return p.b.held(c, objects("after", 1, 50_000)) == 1 })
	after := objects("more", 1, slices.Repeat([]int{50_000}, 20)...)
	p.b.mustPut(c, "batch_put_from", nil, after)
	p.a.mustGet(c, "batch_get_into", after)
	c.notef("%d of %d objects are there afterwards, %d puts until one succeeded", p.b.held(c, before), len(before), tries)
	p.memory(c)
}

// nodeKilled: what lay at a node that is killed cannot be got, and nothing else is concerned. The
// master forgets the node, and puts no longer fail.
func nodeKilled(c *check, version string) {
	p := startPool(c, version, "--client_ttl=5")
	there, here := objects("there", 1, slices.Repeat([]int{50_000}, 10)...), objects("here", 1, slices.Repeat([]int{50_000}, 10)...)
	p.a.mustPut(c, "batch_put_from", map[string]any{"preferred_segment": p.b.name}, there)
	p.a.mustPut(c, "batch_put_from", map[string]any{"preferred_segment": p.a.name}, here)
	p.a.mustGet(c, "batch_get_into", there)

	p.b.kill()
	require.Zero(c, p.a.held(c, there[:2]), "at once")
	p.a.mustGet(c, "get_into", here)
	until(c, "the master forgets the node", func() bool { return slices.Equal([]string{p.a.name}, p.master.segments(c)) })
	require.Zero(c, p.a.held(c, there))
	keys, _ := columns(there)
	require.Equal(c, slices.Repeat([]int{0}, len(keys)), p.a.exist(c, "batch_is_exist", keys...))
	p.a.mustGet(c, "batch_get_into", here)
	after := objects("after", 1, slices.Repeat([]int{50_000}, 20)...)
	p.a.mustPut(c, "batch_put_from", nil, after)
	p.a.mustGet(c, "batch_get_into", after)
	p.a.mustPut(c, "put_from", nil, there[:1])
	p.a.mustGet(c, "get", there[:1])
	p.memory(c)
}
