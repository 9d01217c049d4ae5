package transfer_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/metadata"
	"github.com/mooncake-go/mooncake/core/transfer"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// TestSyncLeavesOutDroppedPeers: nothing would close the paths that it opened for them.
func TestSyncLeavesOutDroppedPeers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "tcp")
		const most = 32
		a := w.node("a", []string{"tcp"}, 0, func(c *transfer.Config, _ *transfer.Deps) { c.MaxPeers = most })
		var peers []*node
		for i := range most + most/2 {
			peers = append(peers, w.node(fmt.Sprint("b", i), []string{"tcp"}, 4096))
		}
		hang := func(yes bool) {
			w.mu.Lock()
			defer w.mu.Unlock()
			for _, p := range peers[:most] {
				w.hangs[p.name] = yes
			}
		}
		use := func(peers []*node) {
			for _, p := range peers {
				require.NoError(t, a.move(transport.Write, p, 0, pattern(10, 1)))
			}
		}
		use(peers[:most])
		hang(true)
		synced := make(chan error)
		go func() { synced <- a.Sync(context.Background(), "") }()
		synctest.Wait() // It waits for the first ones, and the others give way.
		use(peers[most:])
		hang(false)
		require.Error(t, <-synced)
		start := time.Now()
		a.stop(t)
		require.Zero(t, time.Since(start), "a path is left open")
		for _, p := range peers {
			p.stop(t)
		}
	})
}

// slowNotes takes its time for the first message.
type slowNotes struct {
	daemons
	gate chan struct{}
}

func (d slowNotes) Notify(ctx context.Context, name string, n metadata.Notification) error {
	if n.Message == "1" {
		<-d.gate
	}
	return d.daemons.Notify(ctx, name, n)
}

func TestDoneWaitsForEveryMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "tcp")
		net := &handshakes{nodes: map[string]*node{}}
		gate := make(chan struct{})
		a := w.node("a", []string{"tcp"}, 0, func(_ *transfer.Config, d *transfer.Deps) {
			d.Directory = slowNotes{daemons{directory{w, "a"}, net}, gate}
		})
		b := w.daemon(net, "b")
		batch := batchOf(t, a, 2)
		for _, m := range []string{"1", "2"} {
			accepted(t, batch.SubmitNotify([]transfer.Request{write(b, 0, pattern(10, 1))}, metadata.Notification{Message: m}))
			synctest.Wait()
		}
		select {
		case <-batch.Done():
			t.Error("done, although a message is on its way")
		default:
		}
		close(gate)
		require.NoError(t, batch.Wait(t.Context()))
		n, err := batch.Notified()
		require.NoError(t, err)
		require.Equal(t, 2, n)
		require.NoError(t, batch.Free())
		a.stop(t)
		b.stop(t)
	})
}
