package rdma

import (
	"bytes"
	"fmt"
	"os"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/sdk/transport"
)

// TestSizes moves content of 1 byte to 64 MiB at odd offsets, over several registrations.
func TestSizes(t *testing.T) {
	cfg, _ := library(t, 2)
	most := 64 << 20
	if raceEnabled {
		most = 8 << 20 // The race detector looks at each byte.
	}
	c := newCouple(t, func() *Config {
		c := cfg()
		c.MaxMRSize = 5 << 20 // Boundaries on both sides, at different places.
		return c
	}, most+4099)
	sizes := []int{1, 7, 4097, 1<<20 + 1, 6<<20 - 3, most}
	for i, size := range sizes {
		for _, at := range []int{0, 1, len(c.mem) - size} {
			if size == most && at == 1 {
				continue // The ends are enough for the longest.
			}
			from := c.buf[i+3 : i+3+size]
			if i+3+size > len(c.buf) {
				from = c.buf[:size]
			}
			fill(from, i+at)
			fine(t, c.p, transport.Op{ID: 1, Kind: transport.Write, Local: from, Remote: c.id, Offset: uint64(at)})
			require.True(t, bytes.Equal(from, c.mem[at:at+size]), "write of %d at %d", size, at)
			clear(from)
			fine(t, c.p, transport.Op{ID: 2, Kind: transport.Read, Local: from, Remote: c.id, Offset: uint64(at)})
			require.True(t, bytes.Equal(from, c.mem[at:at+size]), "read of %d at %d", size, at)
		}
	}
}

// TestManyPeers: 8 goroutines write and read 2 peers over every rail at the same time.
func TestManyPeers(t *testing.T) {
	const workers, rounds, size = 8, 20, 48 << 10
	cfg, _ := library(t, 2)
	client := launch(t, cfg())
	var wg sync.WaitGroup
	for peer := range 2 {
		server := launch(t, cfg())
		mem, key := share(t, server, 1, workers*size)
		for w := range workers {
			buf := own(t, client, transport.RegionID(1+peer*workers+w), 2*size)
			p, ids := reach(t, client, server.Endpoint(), key)
			rails := p.Rails()
			wg.Go(func() {
				out, in := buf[:size], buf[size:]
				for r := range rounds {
					fill(out, peer+w+r)
					rail := rails[r%len(rails)].ID
					err := one(p, transport.Op{Kind: transport.Write, Local: out, Remote: ids[0], Offset: uint64(w * size), Rail: rail})
					if err == nil {
						err = one(p, transport.Op{Kind: transport.Read, Local: in, Remote: ids[0], Offset: uint64(w * size)})
					}
					if err == nil && !(bytes.Equal(in, out) && bytes.Equal(mem[w*size:][:size], out)) {
						err = fmt.Errorf("the content is different")
					}
					if err != nil {
						t.Errorf("peer %d, worker %d, round %d: %v", peer, w, r, err)
						return
					}
				}
			})
		}
	}
	wg.Wait()
}

// one carries one operation out.
func one(p *path, op transport.Op) error {
	if n, err := p.Submit([]transport.Op{op}); err != nil || n != 1 {
		return fmt.Errorf("submit: %d, %w", n, err)
	}
	var dst [1]transport.Completion
	if _, err := p.Reap(p.n.env.Context, dst[:]); err != nil {
		return err
	}
	return dst[0].Err
}

// TestNothingLeft: rounds of starting, connecting and stopping leave no descriptor, no rail
// and no object of the devices behind.
func TestNothingLeft(t *testing.T) {
	cfg, w := fakes(t, 2)
	descriptors := func() int {
		all, err := os.ReadDir("/proc/self/fd")
		require.NoError(t, err)
		return len(all)
	}
	client := launch(t, cfg())
	buf := own(t, client, 1, 4096)
	before := -1
	for round := range 20 {
		server := launch(t, cfg())
		_, key := share(t, server, 1, 4096)
		p, ids := reach(t, client, server.Endpoint(), key)
		for _, r := range p.Rails() {
			fine(t, p, transport.Op{ID: 1, Kind: transport.Write, Local: buf, Remote: ids[0], Rail: r.ID})
		}
		require.NoError(t, p.Close(within(t)))
		require.NoError(t, server.Stop(within(t)))
		eventually(t, "rails end with their last user", func() bool {
			client.mu.Lock()
			defer client.mu.Unlock()
			return client.rails.Len() == 0 && len(client.paths) == 0
		})
		live := w.Live(os.Getpid())
		require.Equal(t, 2, live["mr"], "one region on two devices")
		require.Zero(t, live["qp"])
		if round == 1 {
			before = descriptors()
		}
	}
	eventually(t, "descriptors", func() bool { return descriptors() <= before })
}
