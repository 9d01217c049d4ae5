package rdma

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/metadata"
	te "github.com/mooncake-go/mooncake/core/transfer"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

const (
	// largest is the largest request; space is the margin before and after it at odd offsets.
	largest = 64 << 20
	space   = 4 << 10
	// share is the part of every peer's memory that one goroutine has for itself.
	share = 1 << 20
	// goroutinesEach is the number of goroutines that move bytes to and from one peer at a time.
	goroutinesEach = 8
)

// content moves requests of 1 B to 64 MiB at odd offsets to and from two peers, and
// compares all memory of the peers at the end with what it must be: also what no request
// was to touch.
func content(ctx context.Context, t *testing.T) {
	url := metadataServer(t)
	peers := make([]*peer, 2)
	for i, j := range []peerJob{
		{Devices: []string{deviceA}, Size: largest + space},
		{Devices: []string{deviceB}, Size: goroutinesEach * share},
	} {
		j.Name, j.Metadata, j.Seed = fmt.Sprintf("127.0.0.1:%d", 17001+i), url, uint64(i+1)
		peers[i] = startPeer(ctx, t, j)
	}
	n, mem := initiator(ctx, t, url, 2*(largest+space), deviceA, deviceB)
	t.Run("sizes", func(t *testing.T) { sizes(ctx, t, n, mem, peers[0]) })
	t.Run("8 goroutines, 2 peers", func(t *testing.T) { goroutines(ctx, t, n, mem, peers) })
	t.Run("notifications", func(t *testing.T) { notifications(ctx, t, n, peers[1]) })
}

// run moves requests that all have to succeed.
func run(ctx context.Context, t testing.TB, n *node, reqs ...te.Request) {
	t.Helper()
	for i, r := range n.Transfer.Transfer(ctx, reqs) {
		assert.NoError(t, r.Err, "request %d: %d bytes at %#x of %s", i, len(reqs[i].Local), reqs[i].Addr, reqs[i].Peer)
	}
}

func sizes(ctx context.Context, t *testing.T, n *node, mem []byte, p *peer) {
	// Each size is written and read back at other offsets; model is what the peer must have.
	out, back := mem[:largest+space], mem[largest+space:]
	model := make([]byte, p.job.Size)
	fill(model, p.job.Seed)
	fill(out, 77)
	for i, size := range []int{
		1, 2, 3, 7, 8, 9, 63, 64, 65, 127, 255, 256, 257, 1000, 4095, 4096, 4097, 65535, 65536, 65537,
		1<<20 - 1, 1<<20 + 1, 4<<20 + 3, 16<<20 + 5, largest,
	} {
		from, to, again := (i*131+1)%space, (i*257+3)%space, (i*61+5)%space
		run(ctx, t, n, te.Request{Kind: transport.Write, Local: out[from:][:size], Peer: p.job.Name, Addr: p.Addr + uint64(to)})
		copy(model[to:], out[from:][:size])
		clear(back[:again])
		clear(back[again+size:][:8])
		run(ctx, t, n, te.Request{Kind: transport.Read, Local: back[again:][:size], Peer: p.job.Name, Addr: p.Addr + uint64(to)})
		require.True(t, bytes.Equal(out[from:][:size], back[again:][:size]), "%d bytes come back as they were", size)
		require.Equal(t, make([]byte, again), back[:again], "nothing before the %d bytes is touched", size)
		require.Equal(t, make([]byte, 8), back[again+size:][:8], "nothing behind the %d bytes is touched", size)
	}
	tell := p.ask(ctx, t, peerAsk{Sum: true, Length: len(model)})
	require.Equal(t, checksum(model), tell.Sum, "the peer's memory, as the peer sees it")
}

func goroutines(ctx context.Context, t *testing.T, n *node, mem []byte, peers []*peer) {
	const count, rounds = goroutinesEach, 12
	type work struct {
		p     *peer
		model []byte
	}
	var all sync.WaitGroup
	var shares [2][count]work
	for i, p := range peers {
		whole := make([]byte, count*share)
		run(ctx, t, n, te.Request{Kind: transport.Read, Local: mem[:count*share], Peer: p.job.Name, Addr: p.Addr})
		copy(whole, mem[:count*share])
		for g := range count {
			shares[i][g] = work{p, whole[g*share:][:share]}
		}
	}
	for i := range shares {
		for g := range count {
			all.Go(func() {
				w, r := shares[i][g], rand.New(rand.NewPCG(uint64(i), uint64(g)))
				local := mem[(i*count+g)*2*share:][:2*share]
				for round := range rounds {
					var reqs []te.Request
					// Both directions at once, in ranges that do not meet.
					for at, turn := 0, 0; at < share; turn++ {
						gap, size := r.IntN(share/8), 1+r.IntN(1<<r.IntN(17))
						if at += gap; at+size > share {
							break
						}
						req := te.Request{Kind: transport.Read, Local: local[at+turn:][:size], Peer: w.p.job.Name, Addr: w.p.Addr + uint64(g*share+at)}
						if turn%2 == 0 {
							req.Kind = transport.Write
							fill(req.Local, uint64(i*1000+g*100+round))
							copy(w.model[at:], req.Local)
						}
						reqs, at = append(reqs, req), at+size
					}
					run(ctx, t, n, reqs...)
					for _, req := range reqs {
						at := req.Addr - w.p.Addr - uint64(g*share)
						if !assert.True(t, bytes.Equal(w.model[at:][:len(req.Local)], req.Local), "peer %d, goroutine %d, round %d, %d bytes", i, g, round, len(req.Local)) {
							return
						}
					}
				}
			})
		}
	}
	all.Wait()
	for i, p := range peers {
		for g, w := range shares[i] {
			tell := p.ask(ctx, t, peerAsk{Sum: true, Offset: g * share, Length: share})
			assert.Equal(t, checksum(w.model), tell.Sum, "peer %d, the memory of goroutine %d", i, g)
		}
	}
}

func notifications(ctx context.Context, t *testing.T, n *node, p *peer) {
	want := metadata.Notification{Name: "layer-7", Message: "ready"}
	require.NoError(t, n.Transfer.Notify(ctx, p.job.Name, want))
	assert.Equal(t, []metadata.Notification{want}, p.ask(ctx, t, peerAsk{}).Notifications)
}
