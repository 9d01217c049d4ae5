package uds

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

type quiet struct{}

func (quiet) Logger() *slog.Logger { return slog.New(slog.DiscardHandler) }
func (quiet) Report(plugin.Health) {}

func started(t testing.TB, change ...func(*Config)) *node {
	t.Helper()
	cfg := DefaultConfig()
	cfg.Folder = private(t)
	cfg.OpTimeout, cfg.StallTimeout, cfg.DialTimeout = plugin.Duration(long), plugin.Duration(long), plugin.Duration(long)
	for _, f := range change {
		f(cfg)
	}
	n := newNode(*cfg)
	if err := n.Start(context.Background(), quiet{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return n
}

// served returns a node with a region that is open to peers.
func served(t testing.TB, mem []byte, access transport.Access, change ...func(*Config)) (*node, transport.Key) {
	t.Helper()
	n := started(t, change...)
	k, err := n.Register(t.Context(), transport.Region{ID: 1, Mem: mem, FD: -1, Access: access})
	if err != nil {
		t.Fatal(err)
	}
	return n, k
}

func dialled(t testing.TB, from *node, to transport.Endpoint, k transport.Key) (*path, transport.RemoteID) {
	t.Helper()
	p, err := from.Dial(t.Context(), to)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close(context.Background()) })
	id, err := p.Import(t.Context(), k)
	if err != nil {
		t.Fatal(err)
	}
	return p.(*path), id
}

func submit(t testing.TB, p transport.Path, ops ...transport.Op) {
	t.Helper()
	if n, err := p.Submit(ops); err != nil || n != len(ops) {
		t.Fatalf("%d of %d were accepted, error %v", n, len(ops), err)
	}
}

// reap waits for count completions and returns them by ID.
func reap(t testing.TB, p transport.Path, count int) map[uint64]transport.Completion {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), long)
	defer cancel()
	got, dst := map[uint64]transport.Completion{}, make([]transport.Completion, 16)
	for len(got) < count {
		n, err := p.Reap(ctx, dst)
		if err != nil {
			t.Fatalf("%d of %d completions, then %v", len(got), count, err)
		}
		for _, c := range dst[:n] {
			if _, twice := got[c.ID]; twice {
				t.Fatalf("operation %d completed twice", c.ID)
			}
			got[c.ID] = c
		}
	}
	return got
}

func one(t testing.TB, p transport.Path, op transport.Op) transport.Completion {
	t.Helper()
	submit(t, p, op)
	return reap(t, p, 1)[op.ID]
}

// eventually waits until ok returns true.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(long); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("timed out: %s", what)
		}
	}
}
