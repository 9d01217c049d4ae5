package wheels

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/store"
)

// mixes are the versions whose nodes make a pool together with a store node of ours; the short form
// takes the first mix.
var mixes = [][]string{{"0.3.10.post2", "0.3.13.post1"}, {"0.3.9", "0.3.12.post1"}, {"0.3.11.post1", "0.3.13.post1"}, every}

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
	members := mixes
	if control {
		members = nil
		for _, v := range versions {
			members = append(members, slices.Repeat([]string{v}, 3))
		}
	} else if !full {
		members = members[:1]
	}
	for _, m := range members {
		name := together(m)
		t.Run(name, func(t *testing.T) { run(t, name, "mixed pool", func(c *check) { mixed(c, m) }) })
	}
}

// startClients starts clients with memory, one of each version.
func startClients(c *check, members []string, m *master) []*client {
	c.Helper()
	var env []string
	if slices.Contains(members, "0.3.9") {
		// A node of 0.3.9 ends a connection after each request, and a client of 0.3.13 that keeps its
		// connections does not notice that what it wrote was lost.
		env = append(env, "MC_TCP_ENABLE_CONNECTION_POOL=0")
	}
	var clients []*client
	for _, v := range members {
		clients = append(clients, startClient(c, v, m, segment, env...))
	}
	return clients
}

// wrote is what a client wrote to a node.
type wrote struct {
	writer, node string
	objects      []object
}

// lost is a text for each writer and node whose objects a reader did not get as they were put.
func lost(reader string, all []wrote, get func(objects []object) []*value) []string {
	var out []string
	for _, w := range all {
		missing, wrong := 0, 0
		for i, v := range get(w.objects) {
			switch {
			case v == nil:
				missing++
			case *v != *w.objects[i].value():
				wrong++
			}
		}
		if missing+wrong > 0 {
			out = append(out, fmt.Sprintf("%s reads what %s wrote at %s: %d missing, %d wrong of %d", reader, w.writer, w.node, missing, wrong, len(w.objects)))
		}
	}
	return out
}

// getAgain is get, and what is missing is got again, a few times: unread says why.
func (u *client) getAgain(c *check, how string, objects []object) []*value {
	c.Helper()
	values := u.get(c, how, objects)
	for range 3 {
		for i, v := range values {
			if v == nil && !control {
				values[i] = u.get(c, how, objects[i:][:1])[0]
			}
		}
	}
	return values
}

func mixed(c *check, members []string) {
	m := startMaster(c, members[0])
	nodes := map[string]string{} // whose segment a name is
	var ours store.Calls
	if !control {
		startStore(c, m)
		nodes[m.segments(c)[0]] = "ours"
		ours = openOurs(c, m)
	}
	clients := startClients(c, members, m)
	for _, u := range clients {
		nodes[u.name] = u.version
	}
	var all []wrote
	for i, u := range clients {
		for name, node := range nodes {
			for _, how := range []string{"put_from", "batch_put_from"} {
				some := objects(fmt.Sprintf("mixed/%d/%s/%s", i, name, how), 1, 9, 1000, 4096, 4096, 40_000, 40_000, 300_000, 1<<20)
				u.mustPut(c, how, map[string]any{"preferred_segment": name}, some)
				all = append(all, wrote{u.version, node, some})
			}
		}
	}
	var faults []string
	if !control {
		mine := wrote{"our client", "any node", objects("mixed/ours", 1, 9, 300_000, 3<<20)}
		for _, o := range mine.objects {
			require.NoError(c, ours.Put(c.Context(), o.key, o.content(), model.DefaultReplicateConfig()), "%s", o.key)
		}
		all = append(all, mine)
		faults = lost("our client", all, func(objects []object) []*value {
			var out []*value
			for _, o := range objects {
				out = append(out, valueOf(c, ours, o))
			}
			return out
		})
	}
	for _, u := range clients {
		for _, how := range []string{"get_into", "batch_get_into"} {
			faults = append(faults, lost(u.version+", "+how+",", all, func(objects []object) []*value { return u.getAgain(c, how, objects) })...)
		}
	}
	require.Empty(c, faults)
	c.notef("%d writers and nodes, by %d readers", len(all), len(clients))
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
	return 10 * time.Second
}

// unread is how many gets may fail since the client cannot read the answer: our master has to guess the
// version of a client that has only read over a connection so far, and all versions have one address here. A
// wrong guess costs one get.
func unread(gets int) int {
	if control {
		return 0
	}
	return gets / 500
}

func load(c *check, members []string) {
	var flags []string
	if !control {
		flags = []string{"--debug_pprof=http"}
	}
	m := startMaster(c, members[0], flags...)
	var before held
	if !control {
		startStore(c, m)
		before = m.steady(c)
	}
	clients := startClients(c, members, m)
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
	require.LessOrEqual(c, total["unread"], unread(total["gets"]))
	require.Positive(c, total["puts"])
	require.Positive(c, total["removed"])
	require.Greater(c, total["gets"], total["misses"]+total["late"], "some gets got something")

	until(c, "no lease is left", func() bool {
		clients[0].remove(c, "remove_all", false)
		return m.used(c) == 0
	})
	if control {
		return
	}
	for _, u := range clients {
		u.close(c)
		u.kill()
	}
	var after held
	defer func() { c.notef("before %+v, after %+v", before, after) }()
	until(c, "the master lets go of what clients cost", func() bool {
		after = m.held(c)
		return after.goroutines <= before.goroutines && after.files <= before.files && after.heap < before.heap+heapGrowth
	})
}

// heapGrowth is how much more memory the master may have in use after a load: it remembers why objects went. A load has more
// than a million calls, so that a leak of some bytes a call is more.
const heapGrowth = 48 << 20

// held is what a process has in use.
type held struct{ goroutines, files, heap int }

// steady is the most that is held once a store that has just started has all its connections: several looks see no more.
func (m *master) steady(t testing.TB) (h held) {
	t.Helper()
	same := 0
	until(t, "the connections of the store are there", func() bool {
		now := m.held(t)
		if now.goroutines > h.goroutines || now.files > h.files {
			same = 0
		}
		h = held{max(h.goroutines, now.goroutines), max(h.files, now.files), now.heap}
		same++
		time.Sleep(100 * time.Millisecond)
		return same > 15
	})
	return h
}

// held is what the master has in use after a collection of garbage.
func (m *master) held(t testing.TB) (h held) {
	t.Helper()
	text, err := m.ask(t.Context(), "/debug/pprof/heap?gc=1&debug=1")
	require.NoError(t, err)
	_, text, found := strings.Cut(text, "# HeapAlloc = ")
	require.True(t, found)
	_, err = fmt.Sscan(text, &h.heap)
	require.NoError(t, err)
	text, err = m.ask(t.Context(), "/debug/pprof/goroutine?debug=1")
	require.NoError(t, err)
	_, err = fmt.Sscanf(text, "goroutine profile: total %d", &h.goroutines)
	require.NoError(t, err, "%.100s", text)
	files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", m.proc.PID()))
	require.NoError(t, err)
	h.files = len(files)
	return h
}
