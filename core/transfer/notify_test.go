package transfer_test

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/internal/testkit/memtransport"
	"github.com/mooncake-go/mooncake/core/metadata"
	"github.com/mooncake-go/mooncake/core/transfer"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// daemons is a directory whose nodes have handshake daemons.
type daemons struct {
	directory
	net *handshakes
}

type handshakes struct {
	mu    sync.Mutex
	nodes map[string]*node
}

func (d daemons) to(name string) (*node, error) {
	d.net.mu.Lock()
	defer d.net.mu.Unlock()
	if n := d.net.nodes[name]; n != nil {
		return n, nil
	}
	return nil, metadata.ErrNotFound
}

func (d daemons) Address(_ context.Context, name string) (metadata.Address, error) {
	_, err := d.to(name)
	return metadata.Address{Host: "host-of-" + name, Port: 15001}, err
}

func (d daemons) Probe(_ context.Context, name string) error { _, err := d.to(name); return err }

func (d daemons) Notify(ctx context.Context, name string, n metadata.Notification) error {
	to, err := d.to(name)
	if err != nil {
		return err
	}
	return to.HandleNotify(ctx, n)
}

func (w *world) daemon(net *handshakes, name string, opts ...option) *node {
	own := func(_ *transfer.Config, d *transfer.Deps) { d.Directory = daemons{directory{w, name}, net} }
	n := w.node(name, []string{"tcp"}, 1<<20, append(opts, own)...)
	net.mu.Lock()
	defer net.mu.Unlock()
	net.nodes[name] = n
	return n
}

func TestNotifyAndProbe(t *testing.T) {
	w := newWorld(t, "tcp")
	net := &handshakes{nodes: map[string]*node{}}
	few := func(c *transfer.Config, _ *transfer.Deps) { c.MaxNotifications = 2 }
	a, b := w.daemon(net, "a"), w.daemon(net, "b", few)
	require.NoError(t, a.Probe(t.Context(), "b"))
	require.ErrorIs(t, a.Probe(t.Context(), "x"), metadata.ErrNotFound)
	require.Empty(t, b.Notifications())
	first, second := metadata.Notification{Name: "k", Message: "1"}, metadata.Notification{Name: "k", Message: "2"}
	require.NoError(t, a.Notify(t.Context(), "b", first))
	require.NoError(t, a.Notify(t.Context(), "b", second))
	require.Error(t, a.Notify(t.Context(), "b", first), "the queue is full, and the sender learns it")
	require.Equal(t, uint64(1), b.Stats().DroppedNotifications)
	require.Equal(t, []metadata.Notification{first, second}, b.Notifications())
	require.Empty(t, b.Notifications())
	require.NoError(t, b.Notify(t.Context(), "b", first), "itself")
	require.Len(t, b.Notifications(), 1)
	big := metadata.Notification{Message: string(make([]byte, 40<<20))}
	require.NoError(t, a.Notify(t.Context(), "b", big))
	require.Error(t, a.Notify(t.Context(), "b", big), "the bytes are bounded as well")

	plain := w.node("plain", []string{"tcp"}, 0)
	require.True(t, errs.Is(plain.Notify(t.Context(), "b", first), errs.NotSupported))
	require.True(t, errs.Is(plain.Probe(t.Context(), "b"), errs.NotSupported))
}

// TestNotifyAfterABatch: the message goes out once, when all is in place, and not when
// something failed; the batch says why.
func TestNotifyAfterABatch(t *testing.T) {
	w := newWorld(t, "tcp")
	net := &handshakes{nodes: map[string]*node{}}
	a, b, c := w.daemon(net, "a"), w.daemon(net, "b"), w.daemon(net, "c")
	note := metadata.Notification{Name: "a", Message: "done"}
	notified := func(batch *transfer.Batch, to *node, sent int, why string) {
		t.Helper()
		require.NoError(t, batch.Wait(t.Context()))
		n, err := batch.Notified()
		require.Equal(t, sent, n)
		require.Len(t, to.Notifications(), sent)
		if why == "" {
			require.NoError(t, err)
		} else {
			require.ErrorContains(t, err, why)
		}
		require.NoError(t, batch.Free())
	}
	seen := make(chan []byte, 1)
	a.wires["tcp"].SetHook(func(memtransport.Event) memtransport.Fault {
		if len(b.Notifications()) > 0 {
			seen <- nil
		}
		return memtransport.Fault{}
	})
	batch := batchOf(t, a, 3)
	accepted(t, batch.SubmitNotify([]transfer.Request{write(b, 0, pattern(100_000, 1)), write(c, 0, pattern(100_000, 1))}, note))
	notified(batch, b, 1, "")
	require.Empty(t, seen, "not before the bytes")
	require.Empty(t, c.Notifications(), "the first request's peer only")

	a.wires["tcp"].SetHook(nil)
	batch = batchOf(t, a, 3)
	accepted(t, batch.SubmitNotify([]transfer.Request{write(b, 0, pattern(10, 1)), write(b, 1<<20, pattern(10, 1))}, note))
	notified(batch, b, 0, "a request failed")

	batch = batchOf(t, a, 1)
	require.Error(t, batch.SubmitNotify([]transfer.Request{write(b, 0, pattern(10, 1)), write(b, 0, pattern(10, 1))}, note)[1].Err)
	notified(batch, b, 0, "was refused")

	batch = batchOf(t, a, 1)
	require.Empty(t, batch.SubmitNotify(nil, note))
	notified(batch, b, 0, "without requests")

	net.mu.Lock()
	delete(net.nodes, "b")
	net.mu.Unlock()
	batch = batchOf(t, a, 1)
	accepted(t, batch.SubmitNotify([]transfer.Request{write(b, 0, pattern(10, 1))}, note))
	require.NoError(t, batch.Wait(t.Context()))
	_, err := batch.Notified()
	require.ErrorIs(t, err, metadata.ErrNotFound, "an error of the way is visible")
	require.Equal(t, transfer.Completed, batch.BatchStatus().State, "the bytes are in place all the same")
}
