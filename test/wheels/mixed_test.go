package wheels

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// pairs are the versions of which two and a store node of ours make a pool; the short form takes
// the first pair. Together they are all.
var pairs = [][2]string{{"0.3.9", "0.3.13.post1"}, {"0.3.10.post2", "0.3.12.post1"}, {"0.3.11.post1", "0.3.13.post1"}}

// loads are the versions of the clients of each random load. A master of upstream serves its own
// version only.
func loads() [][]string {
	if !control {
		return [][]string{versions}
	}
	var out [][]string
	for _, v := range versions {
		out = append(out, slices.Repeat([]string{v}, 4))
	}
	return out
}

// together names a pool by the versions of its nodes.
func together(members []string) string {
	name := strings.Join(slices.Compact(slices.Clone(members)), "+")
	if !control {
		name += "+ours"
	}
	return name
}

// TestMixed: nodes of two versions and of ours, and every client reads what every other one wrote.
// With upstream's masters all are of one version.
func TestMixed(t *testing.T) {
	wheels(t)
	var members [][]string
	for _, pair := range pairs {
		members = append(members, pair[:])
	}
	if control {
		members = nil
		for _, v := range versions {
			members = append(members, []string{v, v, v})
		}
	} else if !full {
		members = members[:1]
	}
	for _, m := range members {
		name := together(m)
		t.Run(name, func(t *testing.T) { run(t, name, "mixed pool", func(c *check) { mixed(c, m) }) })
	}
}

func mixed(c *check, members []string) {
	m := startMaster(c, members[0])
	if !control {
		startStore(c, m)
	}
	var clients []*client
	for _, v := range members {
		clients = append(clients, startClient(c, v, m, segment))
	}
	var all []object
	writers := len(clients)
	for i, u := range clients {
		for j, name := range m.segments(c) {
			some := objects(fmt.Sprintf("mixed/%d/%d", i, j), 1, 9, 4096, 300_000, 3<<20)
			u.mustPut(c, "batch_put_from", map[string]any{"preferred_segment": name}, some)
			where := u.replicas(c, "get_replica_desc", some[0].key)[0]
			require.Len(c, where, 1)
			all = append(all, some...)
		}
	}
	if !control {
		writers++
		ours := objects("mixed/ours", 1, 9, 300_000, 3<<20)
		for _, o := range ours {
			oursPut(c, m, o)
		}
		all = append(all, ours...)
		for _, o := range all {
			require.Equal(c, o.value(), digest([]byte(oursGet(c, m, o))), "our program gets %s", o.key)
		}
	}
	for _, u := range clients {
		u.mustGet(c, "batch_get_into", all)
		u.mustGet(c, "get", all)
	}
	c.notef("%d objects by %d writers in %d segments", len(all), writers, len(m.segments(c)))
	clients[0].remove(c, "remove_all", true)
	until(c, "the memory of removed objects is free", func() bool { return m.used(c) == 0 })
}

// TestLoad: clients of several versions make random calls at once. No byte is wrong, no call
// fails, and no memory is lost.
func TestLoad(t *testing.T) {
	wheels(t)
	for _, m := range loads() {
		name := together(m)
		t.Run(name, func(t *testing.T) { run(t, name, "random load", func(c *check) { load(c, m) }) })
	}
}

// loadTime is how long a load lasts.
func loadTime(c *check) time.Duration {
	if text := os.Getenv("MOONCAKE_INTEROP_LOAD"); text != "" {
		d, err := time.ParseDuration(text)
		require.NoError(c, err)
		return d
	}
	if full {
		return 10 * time.Minute
	}
	return 30 * time.Second
}

func load(c *check, members []string) {
	m := startMaster(c, members[0])
	if !control {
		startStore(c, m)
	}
	var clients []*client
	for _, v := range members {
		clients = append(clients, startClient(c, v, m, segment))
	}
	limit := loadTime(c)
	for i, u := range clients {
		u.send(c, map[string]any{"call": "load", "me": i, "clients": len(clients), "keys": 640, "seed": i, "seconds": limit.Seconds()})
	}
	total := map[string]int{}
	var faults []string
	for i, u := range clients {
		a := u.answer(c, limit+patience, map[string]any{"call": "load"})
		for name, n := range a.Counts {
			total[name] += n
		}
		for _, f := range a.Faults {
			faults = append(faults, fmt.Sprintf("client %d, %s: %s", i, u.version, f))
		}
	}
	c.notef("%v", total)
	require.Empty(c, faults)
	require.Zero(c, total["wrong"]+total["failed"])
	require.Positive(c, total["puts"])
	require.Positive(c, total["removed"])
	require.Greater(c, total["gets"], total["misses"]+total["late"], "some gets got something")

	until(c, "no lease is left", func() bool {
		clients[0].remove(c, "remove_all", false)
		return m.used(c) == 0
	})
}
