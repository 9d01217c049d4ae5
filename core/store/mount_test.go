package store_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/core/store/node"
	"github.com/mooncake-go/mooncake/core/transfer"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// bare starts a node that has no memory yet.
func bare(t *testing.T, m *member, change func(*node.Config)) *node.Node {
	cfg := node.DefaultConfig()
	if change != nil {
		change(&cfg)
	}
	m.deps.Metrics = nil
	n, err := node.New(cfg, m.deps)
	require.NoError(t, err)
	require.NoError(t, n.Start(t.Context()))
	m.node = n // Stopped with the member.
	return n
}

// TestSegmentsAtRunTime: a node takes memory up and gives it back while it runs, in pieces
// that transports can register.
func TestSegmentsAtRunTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, l := newLedgerPool(t)
		n := bare(t, p.member("a:1", memberOptions{}), func(c *node.Config) { c.MaxSegment = 9 << 20 })
		c := p.member("c:1", memberOptions{})
		ids, err := n.MountSegment(t.Context(), node.MountOptions{Size: 20<<20 + 1})
		require.NoError(t, err)
		require.Len(t, ids, 3, "8 MiB, 8 MiB and the rest")
		require.Equal(t, uint64(20<<20+1), n.Size())
		var sizes []uint64
		for _, s := range n.Segments() {
			sizes = append(sizes, s.Size)
		}
		require.Equal(t, []uint64{8 << 20, 8 << 20, 4<<20 + 1}, sizes)
		l.stripe = 6 << 20
		value := content("k", 15<<20)
		require.NoError(t, c.Put(t.Context(), "k", value, one), "over all pieces")
		got, err := c.Get(t.Context(), "k")
		require.NoError(t, err)
		require.Equal(t, value, got)

		foreign, freed := make([]byte, 1<<20), 0
		more, err := n.MountSegment(t.Context(), node.MountOptions{Memory: transfer.Memory{Bytes: foreign, FD: -1}, Freed: func() { freed++ }})
		require.NoError(t, err)
		require.NoError(t, n.UnmountSegments(t.Context(), more, 0))
		require.Equal(t, 1, freed)
		require.NoError(t, n.UnmountSegments(t.Context(), ids, 5*time.Second))
		require.Zero(t, n.Size())
		got, err = c.Get(t.Context(), "k")
		require.NoError(t, err, "readable during the grace")
		require.Equal(t, value, got)
		require.True(t, errs.Is(n.UnmountSegments(t.Context(), ids, 0), errs.SegmentNotFound), "it is on its way")
		time.Sleep(16 * time.Second)
		synctest.Wait()
		require.Empty(t, p.dir.entries["a:1"].Buffers, "freed after grace and some")
		_, err = c.Get(t.Context(), "k")
		require.True(t, store.IsMiss(err), "%v", err)
		require.True(t, n.Mounted())
	})
}

// TestPutsIntoMemoryThatWasJustMounted: they do not wait for the pull that the node sent before it had the memory.
func TestPutsIntoMemoryThatWasJustMounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, nil)
		s, c := p.member("s:1", memberOptions{segments: []uint64{1 << 20}}), p.member("c:1", memberOptions{})
		for round := range 8 { // An object goes to any of the segments.
			time.Sleep(5*time.Second + 300*time.Millisecond) // A pull waits for records.
			_, err := s.node.MountSegment(t.Context(), node.MountOptions{Size: 1 << 20})
			require.NoError(t, err)
			began := time.Now()
			require.NoError(t, c.Put(t.Context(), fmt.Sprint("k", round), content("k", 100<<10), one))
			require.Less(t, time.Since(began), 500*time.Millisecond, "of virtual time")
		}
	})
}

func TestReplaceSegments(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, l := newLedgerPool(t)
		a := p.member("a:1", memberOptions{segments: []uint64{1 << 20, 1 << 20}})
		c := p.member("c:1", memberOptions{})
		old := a.node.Segments()
		p.master.setHook(func(k call) error {
			if k.name == "MountSegment" {
				return errDown
			}
			return nil
		})
		_, err := a.node.Replace(t.Context(), node.MountOptions{Size: 2 << 20}, 0)
		require.True(t, errs.Is(err, errs.RPCFail), "%v", err)
		require.Equal(t, old, a.node.Segments(), "what cannot be replaced stays")
		p.master.setHook(nil)
		require.NoError(t, c.Put(t.Context(), "k", content("k", 100), one))
		ids, err := a.node.Replace(t.Context(), node.MountOptions{Size: 2 << 20}, time.Second)
		require.NoError(t, err)
		segs, err := l.Segments(t.Context())
		require.NoError(t, err)
		require.Equal(t, []model.SegmentID{ids[0]}, []model.SegmentID{segs[0].ID})
		require.Len(t, segs, 1)
		_, err = c.Get(t.Context(), "k")
		require.NoError(t, err)
		// A master that forgets gets what is there now, not what was.
		l.mu.Lock()
		l.segs, l.known = nil, map[model.ClientID]bool{}
		l.mu.Unlock()
		time.Sleep(3 * time.Second)
		segs, err = l.Segments(t.Context())
		require.NoError(t, err)
		require.Len(t, segs, 1)
		require.Equal(t, ids[0], segs[0].ID)
	})
}

// TestMountAtAMasterThatForgot: memory that is mounted at run time, before a ping finds out that the master has forgotten
// the node, takes the node's other memory along.
func TestMountAtAMasterThatForgot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, l := newLedgerPool(t)
		a := p.member("a:1", memberOptions{segments: []uint64{1 << 20, 1 << 20}})
		l.mu.Lock()
		l.segs, l.known = nil, map[model.ClientID]bool{}
		l.mu.Unlock()
		_, err := a.node.MountSegment(t.Context(), node.MountOptions{Size: 1 << 20})
		require.NoError(t, err)
		time.Sleep(5 * time.Second)
		segs, err := l.Segments(t.Context())
		require.NoError(t, err)
		require.Len(t, segs, 3)
		require.Len(t, a.node.Segments(), 3)
	})
}

func TestMountBadInput(t *testing.T) {
	p, l := newLedgerPool(t)
	m := p.member("a:1", memberOptions{})
	n := bare(t, m, nil)
	freed := 0
	for name, c := range map[string]struct {
		err  error
		code errs.Code
	}{
		"size 0":        {mountError(t, n, node.MountOptions{Freed: func() { freed++ }}), errs.InvalidParams},
		"too large":     {mountError(t, n, node.MountOptions{Size: 1 << 62}), errs.InvalidParams},
		"unknown":       {n.UnmountSegments(t.Context(), []model.SegmentID{model.NewUUID()}, 0), errs.SegmentNotFound},
		"bad grace":     {n.UnmountSegments(t.Context(), nil, -1), errs.InvalidParams},
		"overlap":       {mountError(t, n, twice(t, m, func() { freed++ })), errs.InvalidParams},
		"nothing to do": {n.UnmountSegments(t.Context(), nil, 0), errs.OK},
	} {
		require.Equal(t, c.code, errs.CodeOf(c.err), "%s: %v", name, c.err)
	}
	require.Equal(t, 2, freed, "memory is given back when the mount fails")
	require.Empty(t, n.Segments())
	require.Empty(t, l.segs)
	ids, err := n.MountSegment(t.Context(), node.MountOptions{Size: 4096})
	require.NoError(t, err)
	require.True(t, errs.Is(n.UnmountSegments(t.Context(), append(slices.Clone(ids), ids...), 0), errs.SegmentNotFound), "all or none")
	require.Len(t, n.Segments(), 1)
	require.NoError(t, n.Stop(t.Context()))
	require.True(t, errs.Is(mountError(t, n, node.MountOptions{Size: 4096}), errs.UnavailableInCurrentStatus))
	require.True(t, errs.Is(n.UnmountSegments(t.Context(), ids, 0), errs.UnavailableInCurrentStatus))
}

func mountError(t *testing.T, n *node.Node, o node.MountOptions) error {
	_, err := n.MountSegment(t.Context(), o)
	return err
}

// twice is memory that is registered already.
func twice(t *testing.T, m *member, freed func()) node.MountOptions {
	mem := make([]byte, 4096)
	require.NoError(t, m.RegisterBuffer(t.Context(), mem, ""))
	return node.MountOptions{Memory: transfer.Memory{Bytes: mem, FD: -1}, Freed: freed}
}

// TestStopWithGrace: readers finish, nothing new is placed, and the node stays alive at the
// master until the end.
func TestStopWithGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, l := newLedgerPool(t)
		a := p.member("a:1", memberOptions{segments: []uint64{1 << 20}, node: func(c *node.Config) { c.StopGrace = 30 * time.Second }})
		c := p.member("c:1", memberOptions{})
		require.NoError(t, c.Put(t.Context(), "k", content("k", 100), one))
		done := make(chan time.Duration, 1)
		go func() { done <- took(a.stop) }()
		time.Sleep(20 * time.Second)
		_, err := c.Get(t.Context(), "k")
		require.NoError(t, err)
		require.Empty(t, l.segs)
		require.Equal(t, []time.Duration{30 * time.Second}, l.told())
		require.Equal(t, 30*time.Second, <-done)
		require.Equal(t, []time.Duration{30 * time.Second, 0}, l.told(), "told again before the memory goes")
		_, err = c.Get(t.Context(), "k")
		require.True(t, store.IsMiss(err), "%v", err)
	})
}
