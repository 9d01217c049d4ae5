package store_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/internal/testkit/memtransport"
	"github.com/mooncake-go/mooncake/core/master"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/core/transfer"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// apart is a member whose way to the master the test cuts without that of the others.
func (p *pool) apart(name string, o memberOptions) (m *member, way *outage) {
	way = &outage{}
	way.set(p.master.current())
	q := *p
	q.master = way
	return q.member(name, o), way
}

func (p *pool) service() *master.Service { return p.master.current().(*master.Service) }

// held returns what the pool holds back for writers of the past.
func (p *pool) held() (n uint64) {
	segs, err := p.service().Segments(context.Background())
	require.NoError(p.t, err)
	for _, s := range segs {
		n += s.Held
	}
	require.NoError(p.t, p.service().Balance(context.Background()))
	return n
}

// TestWritesEndBeforeTheirMemoryIsUsedAgain: a client that the master hears no more, and that still
// reaches the stores, ends its writes while their memory is held back. The memory is free soon after.
func TestWritesEndBeforeTheirMemoryIsUsedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, nil)
		p.member("a:1", memberOptions{segments: []uint64{1 << 20}, unguarded: true}) // A guard would end them earlier.
		c, way := p.apart("c:1", memberOptions{engine: func(c *transfer.Config) { c.SliceSize, c.Window = 4096, 4096 }})
		require.NoError(t, c.Put(t.Context(), "first", content("first", 1000), one))
		time.Sleep(3 * time.Second) // The master knows what the client promises.
		c.wire.SetHook(func(memtransport.Event) memtransport.Fault {
			return memtransport.Fault{Delay: 2 * time.Second, Late: true}
		})
		ended := make(chan error, 1)
		go func() { ended <- c.Put(context.Background(), "slow", content("slow", 100<<10), one) }()
		synctest.Wait()
		way.set(nil)
		err := <-ended
		require.ErrorIs(t, err, transfer.ErrLapsed)
		require.Equal(t, uint64(100<<10), p.held(), "the memory is not free yet")
		c.wire.SetHook(nil)
		require.Error(t, c.Put(t.Context(), "k", content("k", 10), one))
		time.Sleep(45 * time.Second)
		require.Zero(t, p.held())
		way.set(p.master.current())
		time.Sleep(4 * time.Second)
		require.NoError(t, c.Put(t.Context(), "slow", content("slow", 100<<10), one), "it is back")
	})
}

// TestACrashedClientHoldsMemoryForAMinute: its puts end with it, although it has no memory of its own.
func TestACrashedClientHoldsMemoryForAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, nil)
		a := p.member("a:1", memberOptions{segments: []uint64{1 << 20}})
		c, way := p.apart("c:1", memberOptions{})
		require.NoError(t, c.StartPuts(t.Context(), []model.Key{"k"}, []uint64{900 << 10}, one, nil)[0])
		time.Sleep(3 * time.Second)
		way.set(nil)
		time.Sleep(20 * time.Second)
		require.Equal(t, uint64(900<<10), p.held())
		require.Error(t, a.Put(t.Context(), "large", content("large", 500<<10), one))
		time.Sleep(45 * time.Second)
		require.Zero(t, p.held())
		require.NoError(t, a.Put(t.Context(), "large", content("large", 500<<10), one))
	})
}

// TestLayersAfterTheMasterWasOutOfReach: a put in layers goes on after a short outage, and fails after one in which the
// master may have given its memory to others.
func TestLayersAfterTheMasterWasOutOfReach(t *testing.T) {
	for name, c := range map[string]struct {
		outage time.Duration
		fails  bool
	}{"short": {5 * time.Second, false}, "long": {40 * time.Second, true}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPool(t, nil)
				p.member("a:1", memberOptions{segments: []uint64{1 << 20}})
				m, way := p.apart("c:1", memberOptions{})
				require.NoError(t, m.StartPuts(t.Context(), []model.Key{"k"}, []uint64{200}, one, nil)[0])
				require.NoError(t, m.PutRanges(t.Context(), []store.Ranges{write("k", 0, content("k", 100))})[0].Err)
				time.Sleep(3 * time.Second)
				way.set(nil)
				time.Sleep(c.outage)
				way.set(p.master.current())
				time.Sleep(6 * time.Second)
				err := m.PutRanges(t.Context(), []store.Ranges{write("k", 100, content("k", 100))})[0].Err
				if !c.fails {
					require.NoError(t, err)
					require.NoError(t, m.EndPuts(t.Context(), []model.Key{"k"})[0])
					return
				}
				require.Equal(t, errs.TransferFail, errs.CodeOf(err), "%v", err)
				require.ErrorContains(t, err, "put it again")
				require.Error(t, m.EndPuts(t.Context(), []model.Key{"k"})[0])
				require.NoError(t, m.Put(t.Context(), "k", content("k", 100), one))
			})
		})
	}
}

// TestAClientIsKnownFromItsFirstPut: one that only reads leaves the master alone.
func TestAClientIsKnownFromItsFirstPut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, l := newLedgerPool(t)
		p.member("a:1", memberOptions{segments: []uint64{segment}})
		c := p.member("c:1", memberOptions{})
		known := func() bool {
			l.mu.Lock()
			defer l.mu.Unlock()
			return l.known[c.session.ID()]
		}
		_, err := c.Exist(t.Context(), "k")
		require.NoError(t, err)
		time.Sleep(5 * time.Second)
		require.False(t, known())
		require.NoError(t, c.Put(t.Context(), "k", content("k", 100), one))
		require.True(t, known())
		l.mu.Lock()
		delete(l.known, c.session.ID())
		l.mu.Unlock()
		time.Sleep(3 * time.Second)
		require.True(t, known(), "it comes back to a master that forgot it")
	})
}
