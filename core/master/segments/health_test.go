package segments

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mooncake-go/mooncake/core/master/lease"
	"github.com/mooncake-go/mooncake/core/model"
)

// world is a pool of n nodes; node i is client i, name and endpoint say so.
type world struct {
	t        require.TestingT
	registry *Registry
	clients  *Clients
	health   *Health
	segs     []*Segment
	now      lease.Instant
}

func newWorld(t require.TestingT, n int) *world {
	w := &world{t: t, registry: NewRegistry(), clients: NewClients(), now: 1}
	w.health = NewHealth(w.registry, w.clients)
	for range n {
		w.join()
	}
	return w
}

func (w *world) join() *Segment {
	i := uint64(len(w.segs))
	require.NoError(w.t, w.clients.Register(client(i), w.now))
	s, _, err := w.registry.Prepare(client(i), model.Segment{ID: model.UUID{Lo: i + 1}, Name: fmt.Sprint("n", i), Endpoint: fmt.Sprint("e", i), Base: 1, Size: 1000})
	require.NoError(w.t, err)
	w.health.Mount(s, w.now)
	w.registry.Add(s)
	w.segs = append(w.segs, s)
	return s
}

func client(i uint64) model.ClientID { return model.ClientID{Hi: i + 1} }

// pass lets d go by in steps of half a second, in which all but the silent ones ping.
func (w *world) pass(d time.Duration, silent ...uint64) {
	for end := w.now.Add(d); w.now < end; {
		w.now = w.now.Add(500 * time.Millisecond)
	ping:
		for i := range w.segs {
			for _, s := range silent {
				if s == uint64(i) {
					continue ping
				}
			}
			w.clients.Touch(client(uint64(i)), w.now)
		}
		w.health.Tick(w.now)
	}
}

// say makes client from report on node i.
func (w *world) say(from uint64, i int, r model.PeerReport) {
	r.Endpoint = fmt.Sprint("e", i)
	w.health.Report(client(from), model.PingReport{Peers: []model.PeerReport{r}}, w.now)
}

func TestFailuresCutAtOnceAndFadeSlowly(t *testing.T) {
	for _, c := range []struct {
		name         string
		done, failed uint32
		want         float64
	}{
		{"nothing failed", 100, 0, 1},
		{"one of a hundred", 99, 1, 0.933},
		{"a tenth", 90, 10, 0.5},
		{"a fifth", 80, 20, 0.25},
		{"all", 0, 1, 0.01},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, 3)
			w.say(1, 0, model.PeerReport{Done: c.done, Failed: c.failed})
			require.InDelta(t, c.want, w.segs[0].Weight(), 0.001)
			require.Equal(t, 1.0, w.segs[1].Weight())
			require.Equal(t, c.want == 1, w.registry.View().Even())
			w.pass(15 * time.Second)
			require.InDelta(t, min(c.want+0.5, 1), w.segs[0].Weight(), 0.001, "half way after half the time")
			w.pass(15 * time.Second)
			require.Equal(t, 1.0, w.segs[0].Weight())
			require.True(t, w.registry.View().Even())
			require.Empty(t, w.health.peers, "what is well again is forgotten")
		})
	}
}

func TestFailuresThatGoOnKeepTheWeightDown(t *testing.T) {
	w := newWorld(t, 2)
	for range 60 {
		w.say(1, 0, model.PeerReport{Done: 80, Failed: 20})
		w.pass(time.Second)
	}
	require.InDelta(t, 0.25, w.segs[0].Weight(), 0.05)
}

func TestMilderNewsDoesNotRaiseTheWeight(t *testing.T) {
	w := newWorld(t, 2)
	w.say(1, 0, model.PeerReport{Failed: 1})
	w.pass(12 * time.Second)
	require.InDelta(t, 0.41, w.segs[0].Weight(), 0.001)
	w.say(1, 0, model.PeerReport{Done: 999, Failed: 1})
	require.InDelta(t, 0.41, w.segs[0].Weight(), 0.001, "nor does it hold up the way back")
	w.pass(3 * time.Second)
	require.InDelta(t, 0.51, w.segs[0].Weight(), 0.001)
}

func TestAReportCountsForTheWindow(t *testing.T) {
	at := func(s int) lease.Instant { return lease.Instant(1).Add(time.Duration(s) * time.Second) }
	p := newPeer()
	p.add(client(1), model.PeerReport{Done: 1}, at(0))
	p.add(client(1), model.PeerReport{Done: 49, Failed: 50}, at(9))
	require.InDelta(t, 0.5, p.failed(at(9)), 0.01)
	require.InDelta(t, 0.5, p.failed(at(11)), 0.01, "the first half of the window is over, the second is not")
	require.Zero(t, p.failed(at(20)))
	p.expire(at(20))
	require.Empty(t, p.tallies)
}

func TestOneClientAloneDoesNotZeroANode(t *testing.T) {
	w := newWorld(t, 4)
	w.say(1, 0, model.PeerReport{Done: 10})
	w.say(2, 0, model.PeerReport{Failed: 1000})
	require.InDelta(t, 0.177, w.segs[0].Weight(), 0.001, "a quarter of failures")
	w.say(3, 0, model.PeerReport{Failed: 1000})
	require.InDelta(t, 0.031, w.segs[0].Weight(), 0.001, "half: two cannot all be wrong")

	w = newWorld(t, 4)
	w.say(2, 0, model.PeerReport{Failed: 1000})
	require.Equal(t, 0.01, w.segs[0].Weight(), "no client says otherwise")
	w.pass(60 * time.Second)
	w.say(2, 0, model.PeerReport{Done: 60, Failed: 40})
	require.InDelta(t, 0.0625, w.segs[0].Weight(), 0.001, "its own successes are no second opinion")
	w.pass(60 * time.Second)
	w.say(1, 0, model.PeerReport{Done: 1000})
	w.say(2, 0, model.PeerReport{Failed: 1})
	require.Greater(t, w.segs[0].Weight(), 0.99, "by the number of transfers")
}

func TestSilenceIsZeroAtOnceAndComesBackOnARamp(t *testing.T) {
	w := newWorld(t, 2)
	w.pass(10 * time.Second)
	w.pass(2*time.Second, 0)
	require.Equal(t, 1.0, w.segs[0].Weight())
	w.pass(500*time.Millisecond, 0)
	require.Zero(t, w.segs[0].Weight())
	require.Equal(t, 1.0, w.segs[1].Weight())
	require.False(t, w.registry.View().Even())
	w.pass(500 * time.Millisecond)
	require.InDelta(t, 0.1, w.segs[0].Weight(), 1e-9)
	w.pass(5 * time.Second)
	require.InDelta(t, 0.55, w.segs[0].Weight(), 1e-9)
	w.pass(5 * time.Second)
	require.Equal(t, 1.0, w.segs[0].Weight())
	require.True(t, w.registry.View().Even())
	w.pass(time.Hour)
	require.Equal(t, 1.0, w.segs[0].Weight())
}

func TestAnUnknownOwnerIsSilent(t *testing.T) {
	w := newWorld(t, 2)
	w.clients.Expire(w.now.Add(time.Hour), time.Minute)
	w.health.Tick(w.now)
	require.Zero(t, w.segs[0].Weight())
}

func TestAnEmptyNodeIsNotStampeded(t *testing.T) {
	w := newWorld(t, 2)
	w.segs[0].Take(50)
	require.Equal(t, 1.0, w.join().Weight(), "the pool is nearly empty itself")
	w.segs[0].Take(900)
	late := w.join()
	require.InDelta(t, 0.1, late.Weight(), 1e-9)
	require.False(t, w.registry.View().Even(), "from the first view on")
	w.pass(5 * time.Second)
	require.InDelta(t, 0.55, late.Weight(), 1e-9)
	w.pass(5 * time.Second)
	require.Equal(t, 1.0, late.Weight())
}

func TestSlowNodesAreFoundByTheMedian(t *testing.T) {
	const gib = 1 << 30
	fast := model.PeerReport{Done: 10, Bytes: gib, Busy: time.Second}
	slow := model.PeerReport{Done: 10, Bytes: gib, Busy: 5 * time.Second}
	for _, c := range []struct {
		name  string
		say   func(*world)
		wants float64
	}{
		{"slow for all", func(w *world) { w.say(1, 0, slow); w.say(2, 0, slow) }, 0.25},
		{"slow for one of two", func(w *world) { w.say(1, 0, slow); w.say(2, 0, fast) }, 1},
		{"slow for one of three", func(w *world) { w.say(1, 0, slow); w.say(2, 0, fast); w.say(3, 0, fast) }, 1},
		{"slow for two of three", func(w *world) { w.say(1, 0, slow); w.say(2, 0, slow); w.say(3, 0, fast) }, 0.25},
		{"a third of the others", func(w *world) { w.say(1, 0, model.PeerReport{Bytes: gib, Busy: 3 * time.Second}) }, 1},
		{"too few bytes to say", func(w *world) { w.say(1, 0, model.PeerReport{Bytes: 1 << 20, Busy: time.Second}) }, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, 4)
			for i := 1; i < 4; i++ {
				w.say(0, i, fast)
			}
			c.say(w)
			w.pass(500 * time.Millisecond)
			require.InDelta(t, c.wants, w.segs[0].Weight(), 1e-9)
			require.Equal(t, 1.0, w.segs[1].Weight())
		})
	}
	w := newWorld(t, 2)
	w.say(1, 0, slow)
	w.say(0, 1, fast)
	w.pass(500 * time.Millisecond)
	require.Equal(t, 1.0, w.segs[0].Weight(), "two say nothing about which of them is odd")
}

// TestWeightsStayInBounds sends anything and checks what must always hold.
func TestWeightsStayInBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, rapid.IntRange(1, 4).Draw(t, "nodes"))
		node := rapid.IntRange(0, len(w.segs)-1)
		t.Repeat(map[string]func(*rapid.T){
			"report": func(t *rapid.T) {
				r := model.PeerReport{
					Done: rapid.Uint32().Draw(t, "done"), Failed: rapid.Uint32Range(0, 3).Draw(t, "failed"),
					Bytes: rapid.Uint64().Draw(t, "bytes"), Busy: time.Duration(rapid.Int64().Draw(t, "busy")),
				}
				i := node.Draw(t, "node")
				before := w.segs[i].Weight()
				w.say(rapid.Uint64Range(0, 100).Draw(t, "from"), i, r)
				if r.Failed == 0 {
					require.Equal(t, before, w.segs[i].Weight(), "good news waits for the clock")
				}
			},
			"pass": func(t *rapid.T) {
				w.pass(time.Duration(rapid.IntRange(1, 20).Draw(t, "halves"))*500*time.Millisecond, uint64(node.Draw(t, "silent")))
			},
			"": func(t *rapid.T) {
				even := true
				for _, s := range w.segs {
					x := s.Weight()
					require.True(t, x == 0 || x >= floorWeight && x <= 1, "%v", x)
					even = even && x == 1
				}
				require.Equal(t, even, w.registry.View().Even())
				require.LessOrEqual(t, len(w.health.peers), len(w.segs))
				for _, p := range w.health.peers {
					require.LessOrEqual(t, len(p.tallies), maxReporters)
				}
			},
		})
		w.pass(time.Minute)
		w.pass(time.Minute)
		require.True(t, w.registry.View().Even(), "without bad news all is well again")
	})
}

func TestReportsOnStrangersAreLeftOut(t *testing.T) {
	w := newWorld(t, 1)
	w.say(0, 7, model.PeerReport{Failed: 3})
	require.Empty(t, w.health.peers)
	w.say(0, 0, model.PeerReport{Failed: 3})
	require.Len(t, w.health.peers, 1)
	w.registry.Remove(w.segs[0])
	w.health.Tick(w.now)
	require.Empty(t, w.health.peers)
}
