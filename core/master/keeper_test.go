package master_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/ledger"
	"github.com/mooncake-go/mooncake/core/master"
	"github.com/mooncake-go/mooncake/core/model"
)

// keeper is a node with ledgers: it attaches, and pulls until it is told to stop.
type keeper struct {
	t       testing.TB
	client  model.ClientID
	segs    []model.Segment
	logs    map[model.SegmentID]*ledger.Log
	pages   map[model.SegmentID]*heapPages
	told    map[model.SegmentID]*told
	whole   int         // how often it has reported a whole ledger
	mute    atomic.Bool // it pulls nothing
	between func()      // called before it reports a ledger, nil for nothing
	books   *books      // of the grants that its peers need, nil for none
	stop    context.CancelFunc
	pulling sync.WaitGroup
}

type heapPages struct{ b []byte }

func (h *heapPages) Bytes() []byte { return h.b }

func (h *heapPages) Resize(n int) error {
	h.b = append(make([]byte, 0, n), h.b[:min(n, len(h.b))]...)[:n]
	return nil
}

// newKeeper makes a node with segments of so many pages.
func newKeeper(t testing.TB, n uint64, pages ...int) *keeper {
	k := &keeper{t: t, client: model.UUID{Hi: 5, Lo: n}, logs: map[model.SegmentID]*ledger.Log{}, pages: map[model.SegmentID]*heapPages{}, told: map[model.SegmentID]*told{}}
	for i, p := range pages {
		s := segment(int(n)*10+i, p*page)
		k.pages[s.ID] = &heapPages{}
		log, err := ledger.Create(k.pages[s.ID], ledger.Identity{Segment: s.ID, Size: s.Size})
		require.NoError(t, err)
		k.segs, k.logs[s.ID] = append(k.segs, s), log
	}
	t.Cleanup(k.leave)
	return k
}

// join attaches to a master and pulls from it.
func (k *keeper) join(r *rig) {
	k.t.Helper()
	k.leave()
	require.NoError(k.t, k.attach(r))
	ctx, stop := context.WithCancel(context.Background())
	k.stop = stop
	k.pulling.Go(func() { k.pull(ctx, r) })
	synctest.Wait() // The second pull says that the node obeys the master.
}

func (k *keeper) attach(r *rig) error {
	var states []model.LedgerState
	for _, s := range k.segs {
		l := k.logs[s.ID]
		states = append(states, model.LedgerState{Segment: s, Fence: uint64(l.Fenced()), Seq: uint64(l.Seq()), Lease: l.Lease(), Grants: k.books.give(s.ID, true)})
	}
	got, err := r.Attach(r.ctx, k.client, states)
	if err != nil {
		return err
	}
	k.books.hear(got, true)
	for i, g := range got.Segments {
		s := k.segs[i]
		if _, err := k.logs[s.ID].Fence(ledger.Epoch(g.Epoch), got.Lease); err != nil {
			return err
		}
		if g.Resume {
			continue
		}
		if k.between != nil {
			k.between()
		}
		if _, err := k.report(r, s.ID, g); err != nil {
			return err
		}
	}
	return nil
}

// report passes what a master does not know of a ledger.
func (k *keeper) report(r *rig, id model.SegmentID, g model.LedgerGrant) (ledger.Seq, error) {
	if g.Tail {
		if seq, err := k.tail(r, id, g.Epoch, ledger.Seq(g.Since)); !errors.Is(err, ledger.ErrGap) {
			return seq, err
		}
	}
	k.whole++
	var pieces [][]byte
	seq, err := k.logs[id].Snapshot(200, func(b []byte) error {
		pieces = append(pieces, slices.Clone(b))
		return nil
	})
	require.NoError(k.t, err)
	if len(pieces) == 0 {
		pieces = [][]byte{nil}
	}
	for j, p := range pieces {
		err := r.Report(r.ctx, k.client, model.LedgerReport{Segment: id, Epoch: g.Epoch, Index: uint32(j), Batch: p, Last: j == len(pieces)-1, Seq: uint64(seq)})
		if err != nil {
			return 0, err
		}
	}
	return seq, nil
}

func (k *keeper) pull(ctx context.Context, r *rig) {
	for round := uint64(0); ctx.Err() == nil; {
		var acks []model.LedgerAck
		for _, s := range k.segs {
			acks = append(acks, model.LedgerAck{Segment: s.ID, Epoch: uint64(k.logs[s.ID].Fenced()), Seq: uint64(k.logs[s.ID].Seq())})
		}
		got, err := r.Pull(ctx, k.client, round, acks)
		if err != nil || k.mute.Load() {
			select {
			case <-time.After(50 * time.Millisecond):
			case <-ctx.Done():
			}
			continue
		}
		round = got.Round
		for _, b := range got.Batches {
			if _, err := k.logs[b.Segment].Append(b.Bytes); err != nil {
				k.t.Errorf("the ledger refuses a batch: %v", err)
			}
		}
	}
}

// leave ends the pulls.
func (k *keeper) leave() {
	if k.stop != nil {
		k.stop()
		k.pulling.Wait()
	}
}

// flushed lets the ledgers take what the master has written.
func flushed() { settled(time.Second) }

// settled lets d pass, and the loops that run at its end.
func settled(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// startAttached runs a master with nodes that have ledgers.
func startAttached(t testing.TB, configure func(*master.Config), nodes ...*keeper) *rig {
	r := start(t, func(c *master.Config) {
		c.ClientTTL = time.Hour
		if configure != nil {
			configure(c)
		}
	})
	for _, k := range nodes {
		k.join(r)
	}
	return r
}

// kill stops a master without a word to its nodes.
func (r *rig) kill(t testing.TB, nodes ...*keeper) {
	for _, k := range nodes {
		k.leave()
	}
	require.NoError(t, r.Stop(r.ctx))
}
