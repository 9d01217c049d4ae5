package worker_test

import (
	"context"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/bench/worker"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// tiered has every page on a storage tier from its second read on.
type tiered struct {
	Faulty
	calls [][]string // of Saved
	seen  map[string]bool
	reads uint64
	err   error
}

func newTiered(capacity int) *tiered {
	p := &tiered{Faulty: Faulty{Pool: NewPool(capacity)}, seen: map[string]bool{}}
	p.AfterGet = func(key string, _ []byte, err error) error {
		if p.seen[key] {
			p.reads++
		}
		p.seen[key] = true
		return err
	}
	return p
}

func (p *tiered) Saved(_ context.Context, keys []string) error {
	p.calls = append(p.calls, slices.Clone(keys))
	return p.err
}

func (p *tiered) TierReads() uint64 { return p.reads }

func TestPutsFollowTheSaved(t *testing.T) {
	p := newTiered(10)
	res := run(t, config(), p, requests(six, six, six, []uint64{7}))
	require.Equal(t, [][]string{nil, {key(1), key(2), key(3), key(4)}, {key(5), key(6)}}, p.calls, "before the put of the first four, the last two and 7")
	require.EqualValues(t, 12, res.PagesVerified)
	require.EqualValues(t, 6, res.TierHits)
}

func TestUnsavedPagesEndTheRun(t *testing.T) {
	p := newTiered(10)
	p.err = errs.New(errs.RPCTimeout, "wait", "the disk is gone")
	w, err := worker.New(config(), p)
	require.NoError(t, err)
	res, err := w.Run(t.Context(), requests(six))
	require.ErrorIs(t, err, p.err)
	require.Zero(t, res.PutsOK)
}
